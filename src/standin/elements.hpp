// The elements of torch's tensors that simulated kernels can read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprieve::standin {

// Under the numbers of c10::ScalarType.
enum class Element : std::int8_t {
  uint8 = 0,
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  float16 = 5,
  float32 = 6,
  float64 = 7,
  boolean = 11,
  bfloat16 = 15,
};

// 0 for a number that is none of these.
std::size_t bytes_of(Element element);

// What torch computes with: 64-bit integers here stand for all, as their lowest bits are the same.
enum class Arithmetic : std::uint8_t { integers, single, twofold };
Arithmetic arithmetic_of(Element element);

// How large a constant of the arithmetic is in torch's functors.
std::size_t constant_bytes(Element element);
Element constant_element(Element element);

// From a mangled name, where a type begins: the element, and how long its name is.
struct MangledElement {
  Element element;
  std::size_t length;
};
std::optional<MangledElement> mangled_element(std::string_view name);

// Unaligned addresses are fine. Value: float, double or std::int64_t.
template <typename Value>
Value load_element(const void* at, Element element);
template <typename Value>
void store_element(void* at, Element element, Value value);

}  // namespace reprieve::standin
