// What differs between the versions of torch that this adapter is built for (2.11.0 and newer). The one place that asks;
// a member that a version lacks is told by its absence, never by a version number.
//
// Sources: the headers of torch 2.11.0, 2.12.1, 2.13.0, 2.14.1 and 2.15.0.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <type_traits>
#include <utility>

namespace reprieve::torch_adapter::compat {

namespace cca = c10::cuda::CUDACachingAllocator;

// Members of torch's allocator that came after 2.11. Where the base has one, ours must override it.
template <class T>
concept has_rejection_observers = requires {
  &T::attachOomRejectionObserver;
};
template <class T>
concept has_context_for_pointer = requires {
  &T::getContextForPointer;
};
template <class T>
concept has_capture_marks = requires {
  &T::markCaptureBegin;
};
template <class T>
concept has_metadata_support = requires {
  &T::supportsUserMetadata;
};
template <class T>
concept has_annotate_memory = requires {
  &T::annotateMemory;
};
template <class T>
concept has_allocate_with_address = requires {
  &T::allocateWithAddress;
};

// A pointer to member of ours has the type of the base's but for the class: then it overrides it.
template <class R, class B, class D, class... A>
constexpr bool same_signature(R (B::*)(A...), R (D::*)(A...)) {
  return true;
}
template <class B, class D>
constexpr bool same_signature(B, D) {
  return false;
}

}  // namespace reprieve::torch_adapter::compat
