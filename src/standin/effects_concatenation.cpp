// at::native's kernels behind torch.cat and torch.stack, CatArrayBatchedCopy and its variants. Each launch copies as many
// inputs as it has blocks in y.
//
// Arguments: output; {input[n], offset[n], size along the dimension[n], elements[n], is contiguous[n], shape of the inputs
// that are not: one for all, or one each}; shape of the output; the dimension; elements between neighbours along it. A
// shape is {size[4], stride[4]}. Indices are unsigned.
// The vectorized variant counts the output's sizes and strides in vectors.
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "standin/kernel_effects.hpp"

namespace reprieve::standin {
namespace {

constexpr std::size_t most_dimensions = 4;

// From the kernel's name.
struct Variant {
  std::uint32_t element_bytes = 0;
  std::uint32_t dimensions = 0;
  std::uint32_t inputs = 0;  // room for them
  std::uint32_t shapes = 1;  // of the inputs
  std::uint32_t elements_a_unit = 1;
};

struct Shape {
  std::array<std::uint32_t, most_dimensions> size;
  std::array<std::uint32_t, most_dimensions> stride;
};

struct Input {
  const char* from = nullptr;
  std::uint64_t units = 0;
  std::uint64_t first = 0;  // unit of the output
  std::uint32_t along = 0;  // units along the dimension
  std::optional<Shape> strided;
};

struct Copy {
  Variant variant;
  Shape output{};
  std::uint32_t dimension = 0;
  char* to = nullptr;
  std::uint64_t unit_bytes = 0;
  std::vector<Input> inputs;

  // Where the n-th unit of an input lies in memory of this shape.
  std::uint64_t offset(const Shape& shape, const Input& input, std::uint64_t unit) const {
    std::uint64_t out = 0;
    for (std::uint32_t i = variant.dimensions - 1; i >= 1; --i) {
      const std::uint32_t size = i == dimension ? input.along : shape.size[i];
      out += unit % size * shape.stride[i];
      unit /= size;
    }
    return out + unit * shape.stride[0];
  }
  std::uint64_t place(const Input& input, std::uint64_t unit) const {
    return input.first + offset(output, input, unit);
  }
  std::uint64_t source(const Input& input, std::uint64_t unit) const {
    return input.strided ? offset(*input.strided, input, unit) : unit;
  }

  void run() const {
    for (const Input& input : inputs) {
      for (std::uint64_t unit = 0; unit < input.units; ++unit) {
        std::memcpy(to + place(input, unit) * unit_bytes, input.from + source(input, unit) * unit_bytes, unit_bytes);
      }
    }
  }
};

template <typename Stored>
Stored read(const char* at) {
  Stored out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

// Of the arrays that the second argument is made of.
struct InputArrays {
  const char* at;
  std::size_t count;

  const char* from(std::size_t i) const { return read<const char*>(at + i * sizeof(char*)); }
  std::uint32_t offset(std::size_t i) const { return number(0, i); }
  std::uint32_t along(std::size_t i) const { return number(1, i); }
  std::uint32_t elements(std::size_t i) const { return number(2, i); }
  bool contiguous(std::size_t i) const { return at[flags() + i] != 0; }
  Shape shape(std::size_t i) const {
    constexpr std::size_t alignment = alignof(std::uint32_t);
    const std::size_t begin = (flags() + count + alignment - 1) / alignment * alignment;
    return read<Shape>(at + begin + i * sizeof(Shape));
  }

 private:
  std::size_t flags() const { return count * (sizeof(char*) + 3 * sizeof(std::uint32_t)); }
  std::uint32_t number(std::size_t array, std::size_t i) const {
    return read<std::uint32_t>(at + count * sizeof(char*) + (array * count + i) * sizeof(std::uint32_t));
  }
};

class Concatenation final : public KernelEffect {
 public:
  Concatenation(const Variant& variant, bool inputs_are_contiguous)
      : variant_(variant), inputs_are_contiguous_(inputs_are_contiguous) {}

  void describe(void** arguments, std::uint32_t grid_y, simgpu::Work& work) const override {
    if (grid_y > variant_.inputs) return;
    Copy copy;
    copy.variant = variant_;
    copy.to = read<char*>(static_cast<const char*>(arguments[0]));
    copy.output = read<Shape>(static_cast<const char*>(arguments[2]));
    copy.dimension = read<std::uint32_t>(static_cast<const char*>(arguments[3]));
    copy.unit_bytes = std::uint64_t{variant_.element_bytes} * variant_.elements_a_unit;
    const auto step = read<std::uint32_t>(static_cast<const char*>(arguments[4]));
    const InputArrays arrays{static_cast<const char*>(arguments[1]), variant_.inputs};
    for (std::uint32_t i = 0; i < grid_y; ++i) {
      if (arrays.elements(i) == 0) continue;
      Input input;
      if (!inputs_are_contiguous_ && !arrays.contiguous(i)) input.strided = arrays.shape(variant_.shapes > 1 ? i : 0);
      input.from = arrays.from(i);
      input.units = arrays.elements(i) / variant_.elements_a_unit;
      const bool vectors = variant_.elements_a_unit != 1;
      input.first = std::uint64_t{arrays.offset(i)} * step / variant_.elements_a_unit;
      input.along = vectors ? arrays.along(i) * step / variant_.elements_a_unit : arrays.along(i);
      if (input.along == 0) return;
      copy.inputs.push_back(input);
    }
    add_ranges(copy, work);
    work.effect = [copy = std::move(copy)] { copy.run(); };
  }

 private:
  // The last unit lies furthest behind, as strides are not negative.
  static void add_ranges(const Copy& copy, simgpu::Work& work) {
    const auto to = reinterpret_cast<std::uintptr_t>(copy.to);
    for (const Input& input : copy.inputs) {
      const std::uint64_t first = copy.place(input, 0);
      const std::uint64_t last = input.units - 1;
      work.reads.push_back(
          {reinterpret_cast<std::uintptr_t>(input.from), (copy.source(input, last) + 1) * copy.unit_bytes});
      work.writes.push_back({to + first * copy.unit_bytes, (copy.place(input, last) - first + 1) * copy.unit_bytes});
    }
  }

  const Variant variant_;
  const bool inputs_are_contiguous_;
};

std::optional<std::uint32_t> take_number(std::string_view& name, std::string_view prefix) {
  if (name.substr(0, prefix.size()) != prefix) return std::nullopt;
  std::uint32_t number = 0;
  const char* const begin = name.data() + prefix.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), number);
  if (error != std::errc{} || end == name.data() + name.size() || *end != 'E') return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()) + 1);
  return number;
}

}  // namespace

std::unique_ptr<const KernelEffect> concatenation_effect(std::string_view kernel) {
  constexpr std::string_view family = "CatArrayBatchedCopy";
  const auto found = kernel.find(family);
  if (found == std::string_view::npos) return nullptr;
  std::string_view name = kernel.substr(found + family.size());
  const bool vectorized = name.substr(0, 11) == "_vectorized";
  const bool contiguous = vectorized || name.find("_contigI") != std::string_view::npos;
  const auto type = name.find("10OpaqueTypeI");
  if (type == std::string_view::npos) return nullptr;
  name.remove_prefix(type + 13);
  Variant variant;
  const auto bytes = take_number(name, "Lj");
  if (!bytes || name.substr(0, 3) != "EEj") return nullptr;  // indices of 32 bits
  name.remove_prefix(3);
  const auto dimensions = take_number(name, "Li");
  const auto inputs = take_number(name, "Li");
  const auto strides = take_number(name, "Li");
  if (!dimensions || *dimensions < 1 || *dimensions > most_dimensions || !inputs || !strides) return nullptr;
  variant = {*bytes, *dimensions, *inputs, *strides, 1};
  if (vectorized) {
    const auto alignment = take_number(name, "Li");
    const auto elements = take_number(name, "Li");
    if (!alignment || !elements || *elements == 0) return nullptr;
    variant.elements_a_unit = *elements;
  }
  return std::make_unique<Concatenation>(variant, contiguous);
}

}  // namespace reprieve::standin
