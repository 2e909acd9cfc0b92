// at::native's elementwise kernels. Three shells share the functors:
//
// | kernel                        | arguments
// | vectorized_elementwise_kernel | int count, functor, std::array<char*, operands>
// | unrolled_elementwise_kernel   | the same, then offset calculators that do nothing, a loader and a storer, which may
// |                               | convert: std::array<int8_t, n> element types, then their sizes
// | elementwise_kernel            | int count, and a closure: offset calculator, std::array<char*, operands>, functor,
// |                               | and, where it converts, std::array<int8_t, operands> element types
//
// Operand 0 is the result. The offset calculator is: int dimensions; {unsigned size, 2 more}[25]; unsigned strides in
// bytes[25][operands].
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "standin/elements.hpp"
#include "standin/kernel_effects.hpp"

namespace reprieve::standin {
namespace {

constexpr std::size_t most_operands = 3;
constexpr std::size_t most_dimensions = 25;

enum class Operation : std::uint8_t { fill, add, add_to_constant, add_constant, multiply, multiply_by, copy };

struct Functor {
  Operation operation{};
  Element element{};         // of the arguments, and of the result
  Element result{};          // but for copies that convert
  std::size_t operands = 1;  // with the result

  // As it lies in memory.
  std::size_t bytes() const {
    switch (operation) {
      case Operation::fill: return bytes_of(element);
      case Operation::add: return constant_bytes(element);
      case Operation::add_to_constant:
      case Operation::add_constant:
      case Operation::multiply_by: return 2 * constant_bytes(element);
      case Operation::multiply:
      case Operation::copy: return 1;
    }
    return 0;
  }
  std::size_t alignment() const {
    if (operation == Operation::fill) return bytes_of(element);
    return operation == Operation::multiply || operation == Operation::copy ? 1 : constant_bytes(element);
  }
};

bool take(std::string_view& name, std::string_view prefix) {
  if (name.substr(0, prefix.size()) != prefix) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// `name` begins behind the template's name.
std::optional<Functor> typed(std::string_view name, Operation operation, std::size_t operands) {
  const auto found = mangled_element(name);
  if (!found) return std::nullopt;
  return Functor{operation, found->element, found->element, operands};
}

// A functor of two arguments of one type: "fff", or the type and twice the same substitution.
std::optional<Functor> multiplication(std::string_view name, Operation operation, std::size_t operands) {
  const auto found = mangled_element(name);
  if (!found || name.find("10MulFunctorI") == std::string_view::npos) return std::nullopt;
  const std::string_view type = name.substr(0, found->length);
  const std::string_view rest = name.substr(found->length);
  const bool same = rest.substr(0, 1) == "S" ||
                    (rest.substr(0, type.size()) == type && rest.substr(type.size(), type.size()) == type);
  return same ? typed(name, operation, operands) : std::nullopt;
}

std::optional<Functor> copying(std::string_view name) {
  const auto lambda = name.find("EUl");
  return lambda != std::string_view::npos ? typed(name.substr(lambda + 3), Operation::copy, 2) : std::nullopt;
}

std::optional<Functor> converting(std::string_view name, Element result) {
  auto functor = copying(name);
  if (functor) functor->result = result;
  return functor;
}

std::optional<Functor> parse_functor(std::string_view name) {
  if (take(name, "NS0_11FillFunctorI")) return typed(name, Operation::fill, 1);
  if (take(name, "NS0_15CUDAFunctor_addI")) return typed(name, Operation::add, 3);
  if (take(name, "NS0_21CUDAFunctorOnSelf_addI")) return typed(name, Operation::add_constant, 2);
  if (take(name, "NS0_22CUDAFunctorOnOther_addI")) return typed(name, Operation::add_to_constant, 2);
  if (take(name, "NS0_13BinaryFunctorI")) return multiplication(name, Operation::multiply, 3);
  if (take(name, "NS0_13AUnaryFunctorI")) return multiplication(name, Operation::multiply_by, 2);
  if (take(name, "NS0_13BUnaryFunctorI")) return multiplication(name, Operation::multiply_by, 2);
  if (take(name, "ZZZNS0_23direct_copy_kernel_cuda")) return copying(name);
  if (take(name, "ZNS0_25bfloat16_copy_kernel_cuda")) return converting(name, Element::bfloat16);
  if (take(name, "ZNS0_24float16_copy_kernel_cuda")) return converting(name, Element::float16);
  return std::nullopt;
}

// Where the elements of all operands lie.
struct Layout {
  std::array<char*, most_operands> data{};
  std::array<Element, most_operands> elements{};
  std::uint64_t count = 0;
  std::vector<std::uint32_t> sizes;  // none: one element behind the other
  std::array<std::array<std::uint32_t, most_dimensions>, most_operands> strides{};

  std::uint64_t offset(std::size_t operand, std::uint64_t index) const {
    if (sizes.empty()) return index * bytes_of(elements[operand]);
    std::uint64_t out = 0;
    for (std::size_t dimension = 0; dimension < sizes.size(); ++dimension) {
      out += index % sizes[dimension] * strides[operand][dimension];
      index /= sizes[dimension];
    }
    return out;
  }

  // From the first to the last byte: what lies between strided elements is counted in.
  simgpu::Range range(std::size_t operand) const {
    std::uint64_t last = 0;
    if (sizes.empty()) last = (count - 1) * bytes_of(elements[operand]);
    for (std::size_t dimension = 0; dimension < sizes.size(); ++dimension) {
      last += std::uint64_t{sizes[dimension] - 1} * strides[operand][dimension];
    }
    return {reinterpret_cast<std::uintptr_t>(data[operand]), last + bytes_of(elements[operand])};
  }
};

using Constants = std::array<std::byte, 16>;

template <typename Value>
void run(const Functor& functor, const Layout& layout, const Constants& constants) {
  const Element kept = functor.operation == Operation::fill ? functor.element : constant_element(functor.element);
  const auto first = load_element<Value>(constants.data(), kept);
  const auto second = load_element<Value>(constants.data() + bytes_of(kept), kept);
  const auto argument = [&](std::size_t operand, std::uint64_t index) {
    return load_element<Value>(layout.data[operand] + layout.offset(operand, index), layout.elements[operand]);
  };
  for (std::uint64_t index = 0; index < layout.count; ++index) {
    Value value{};
    switch (functor.operation) {
      case Operation::fill: value = first; break;
      case Operation::add: value = argument(1, index) + first * argument(2, index); break;
      case Operation::add_constant: value = argument(1, index) + second * first; break;
      case Operation::add_to_constant: value = first + second * argument(1, index); break;
      case Operation::multiply: value = argument(1, index) * argument(2, index); break;
      case Operation::multiply_by: value = argument(1, index) * second; break;
      case Operation::copy: value = argument(1, index); break;
    }
    store_element(layout.data[0] + layout.offset(0, index), layout.elements[0], value);
  }
}

void run(const Functor& functor, const Layout& layout, const Constants& constants) {
  switch (arithmetic_of(functor.element)) {
    case Arithmetic::integers: run<std::int64_t>(functor, layout, constants); return;
    case Arithmetic::single: run<float>(functor, layout, constants); return;
    case Arithmetic::twofold: run<double>(functor, layout, constants); return;
  }
}

template <typename Stored>
Stored read(const void* at) {
  Stored out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

enum class Shell : std::uint8_t { contiguous, converting, strided, strided_converting };

class Elementwise final : public KernelEffect {
 public:
  Elementwise(Shell shell, const Functor& functor) : shell_(shell), functor_(functor) {}

  void describe(void** arguments, std::uint32_t, simgpu::Work& work) const override {
    Layout layout;
    Constants constants{};
    layout.count = static_cast<std::uint64_t>(std::max(read<int>(arguments[0]), 0));
    layout.elements = {functor_.result, functor_.element, functor_.element};
    const bool strided = shell_ == Shell::strided || shell_ == Shell::strided_converting;
    const bool known = strided ? read_closure(static_cast<const char*>(arguments[1]), layout, constants)
                               : read_arguments(arguments, layout, constants);
    if (!known || layout.count == 0) return;
    work.writes.push_back(layout.range(0));
    for (std::size_t operand = 1; operand < functor_.operands; ++operand) work.reads.push_back(layout.range(operand));
    work.effect = [functor = functor_, layout, constants] { run(functor, layout, constants); };
  }

 private:
  void read_functor(const char* at, Constants& constants) const {
    std::memcpy(constants.data(), at, std::min(functor_.bytes(), constants.size()));
  }

  bool read_elements(const char* at, std::size_t first, std::size_t count, Layout& layout) const {
    for (std::size_t i = 0; i < count; ++i) {
      layout.elements[first + i] = Element{static_cast<std::int8_t>(at[i])};
      if (bytes_of(layout.elements[first + i]) == 0) return false;
    }
    return true;
  }

  bool read_arguments(void** arguments, Layout& layout, Constants& constants) const {
    read_functor(static_cast<const char*>(arguments[1]), constants);
    std::memcpy(layout.data.data(), arguments[2], functor_.operands * sizeof(char*));
    if (shell_ == Shell::contiguous) return true;
    return read_elements(static_cast<const char*>(arguments[5]), 1, functor_.operands - 1, layout) &&
           read_elements(static_cast<const char*>(arguments[6]), 0, 1, layout);
  }

  bool read_closure(const char* at, Layout& layout, Constants& constants) const {
    constexpr std::size_t divider_bytes = 12;
    const std::size_t operands = functor_.operands;
    const auto dimensions = read<int>(at);
    if (dimensions < 1 || dimensions > static_cast<int>(most_dimensions)) return false;
    const char* const sizes = at + sizeof(int);
    const char* const strides = sizes + most_dimensions * divider_bytes;
    std::uint64_t product = 1;
    for (std::size_t dimension = 0; dimension < static_cast<std::size_t>(dimensions); ++dimension) {
      layout.sizes.push_back(read<std::uint32_t>(sizes + dimension * divider_bytes));
      product *= layout.sizes.back();
      for (std::size_t operand = 0; operand < operands; ++operand) {
        layout.strides[operand][dimension] =
            read<std::uint32_t>(strides + (dimension * operands + operand) * sizeof(std::uint32_t));
      }
    }
    if (product != layout.count) return false;  // not the layout that is known
    const std::size_t calculator = sizeof(int) + most_dimensions * (divider_bytes + operands * sizeof(std::uint32_t));
    std::size_t offset = round_up(calculator, alignof(char*));
    std::memcpy(layout.data.data(), at + offset, operands * sizeof(char*));
    offset = round_up(offset + operands * sizeof(char*), functor_.alignment());
    read_functor(at + offset, constants);
    if (shell_ == Shell::strided) return true;
    return read_elements(at + offset + functor_.bytes(), 0, operands, layout);
  }

  const Shell shell_;
  const Functor functor_;
};

// Behind "ILi4E" and the like.
bool take_number(std::string_view& name) {
  if (!take(name, "Li")) return false;
  const auto end = name.find('E');
  if (end == std::string_view::npos) return false;
  name.remove_prefix(end + 1);
  return true;
}

std::optional<Shell> take_shell(std::string_view& name) {
  if (take(name, "_ZN2at6native29vectorized_elementwise_kernelI")) {
    return take_number(name) ? std::optional(Shell::contiguous) : std::nullopt;
  }
  if (take(name, "_ZN2at6native27unrolled_elementwise_kernelI")) {
    if (name.find("TrivialOffsetCalculator") == std::string_view::npos) return std::nullopt;
    const bool plain = name.find("LoadWithoutCast") != std::string_view::npos &&
                       name.find("StoreWithoutCast") != std::string_view::npos;
    return plain ? Shell::contiguous : Shell::converting;
  }
  if (!take(name, "_ZN2at6native18elementwise_kernelI") || !take_number(name) || !take_number(name)) {
    return std::nullopt;
  }
  if (take(name, "ZNS0_22gpu_kernel_impl_nocastI")) return Shell::strided;
  if (take(name, "ZNS0_15gpu_kernel_implI")) return Shell::strided_converting;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<const KernelEffect> elementwise_effect(std::string_view kernel) {
  const auto shell = take_shell(kernel);
  if (!shell) return nullptr;
  const auto functor = parse_functor(kernel);
  if (!functor) return nullptr;
  return std::make_unique<Elementwise>(*shell, *functor);
}

}  // namespace reprieve::standin
