#include "standin/elements.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <cstring>
#include <utility>

namespace reprieve::standin {
namespace {

template <typename Stored>
Stored read(const void* at) {
  Stored out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

template <typename Stored>
void write(void* at, Stored value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

std::size_t bytes_of(Element element) {
  switch (element) {
    case Element::uint8:
    case Element::int8:
    case Element::boolean: return 1;
    case Element::int16:
    case Element::float16:
    case Element::bfloat16: return 2;
    case Element::int32:
    case Element::float32: return 4;
    case Element::int64:
    case Element::float64: return 8;
  }
  return 0;
}

Arithmetic arithmetic_of(Element element) {
  switch (element) {
    case Element::float16:
    case Element::bfloat16:
    case Element::float32: return Arithmetic::single;
    case Element::float64: return Arithmetic::twofold;
    default: return Arithmetic::integers;
  }
}

Element constant_element(Element element) {
  return arithmetic_of(element) == Arithmetic::single ? Element::float32 : element;
}

std::size_t constant_bytes(Element element) { return bytes_of(constant_element(element)); }

std::optional<MangledElement> mangled_element(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Element>, 10> names{{{"f", Element::float32},
                                                                        {"d", Element::float64},
                                                                        {"l", Element::int64},
                                                                        {"i", Element::int32},
                                                                        {"s", Element::int16},
                                                                        {"a", Element::int8},
                                                                        {"h", Element::uint8},
                                                                        {"b", Element::boolean},
                                                                        {"N3c108BFloat16E", Element::bfloat16},
                                                                        {"N3c104HalfE", Element::float16}}};
  for (const auto& [text, element] : names) {
    if (name.substr(0, text.size()) == text) return MangledElement{element, text.size()};
  }
  return std::nullopt;
}

template <typename Value>
Value load_element(const void* at, Element element) {
  switch (element) {
    case Element::uint8: return static_cast<Value>(read<std::uint8_t>(at));
    case Element::int8: return static_cast<Value>(read<std::int8_t>(at));
    case Element::int16: return static_cast<Value>(read<std::int16_t>(at));
    case Element::int32: return static_cast<Value>(read<std::int32_t>(at));
    case Element::int64: return static_cast<Value>(read<std::int64_t>(at));
    case Element::float32: return static_cast<Value>(read<float>(at));
    case Element::float64: return static_cast<Value>(read<double>(at));
    case Element::boolean: return static_cast<Value>(read<std::uint8_t>(at) != 0 ? 1 : 0);
    case Element::float16: return static_cast<Value>(__half2float(read<__half>(at)));
    case Element::bfloat16: return static_cast<Value>(__bfloat162float(read<__nv_bfloat16>(at)));
  }
  return Value{};
}

template <typename Value>
void store_element(void* at, Element element, Value value) {
  switch (element) {
    case Element::uint8: return write(at, static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
    case Element::int8: return write(at, static_cast<std::int8_t>(static_cast<std::int64_t>(value)));
    case Element::int16: return write(at, static_cast<std::int16_t>(static_cast<std::int64_t>(value)));
    case Element::int32: return write(at, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    case Element::int64: return write(at, static_cast<std::int64_t>(value));
    case Element::float32: return write(at, static_cast<float>(value));
    case Element::float64: return write(at, static_cast<double>(value));
    case Element::boolean: return write(at, static_cast<std::uint8_t>(value != Value{} ? 1 : 0));
    case Element::float16: return write(at, __float2half_rn(static_cast<float>(value)));
    case Element::bfloat16: return write(at, __float2bfloat16_rn(static_cast<float>(value)));
  }
}

template float load_element(const void*, Element);
template double load_element(const void*, Element);
template std::int64_t load_element(const void*, Element);
template void store_element(void*, Element, float);
template void store_element(void*, Element, double);
template void store_element(void*, Element, std::int64_t);

}  // namespace reprieve::standin
