#include "simgpu/codes.hpp"

namespace reprieve::simgpu {
namespace {

struct CodeText {
  Code code;
  const char* name;
  const char* text;
};

constexpr CodeText texts[] = {
    {Code::success, "CUDA_SUCCESS", "no error"},
    {Code::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Code::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Code::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error: the process was forked"},
    {Code::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Code::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Code::operating_system, "CUDA_ERROR_OPERATING_SYSTEM", "an operating system call failed"},
    {Code::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Code::illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {Code::not_ready, "CUDA_ERROR_NOT_READY", "the work has not completed"},
    {Code::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {Code::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the work would never complete"},
    {Code::already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already registered"},
    {Code::not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "the memory range was not registered with the machine"},
    {Code::not_permitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted inside a host function"},
    {Code::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {Code::capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted while a stream is capturing"},
    {Code::capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "the capture failed because of an earlier error"},
    {Code::capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two independent captures would become one"},
    {Code::capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not begun on this stream"},
    {Code::capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "a stream that joined the capture was not joined back to where it began"},
    {Code::capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "a captured stream would depend on work that is not captured"},
    {Code::capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the legacy default stream would depend on a capturing stream"},
    {Code::captured_event, "CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capturing stream"},
    {Code::capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture was begun by another thread"},
    {Code::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const CodeText* find(std::int32_t code) {
  for (const CodeText& entry : texts) {
    if (static_cast<std::int32_t>(entry.code) == code) return &entry;
  }
  return nullptr;
}

}  // namespace

const char* code_name(std::int32_t code) {
  const CodeText* entry = find(code);
  return entry != nullptr ? entry->name : "CUDA_ERROR";
}

const char* code_text(std::int32_t code) {
  const CodeText* entry = find(code);
  return entry != nullptr ? entry->text : "no text for this code";
}

}  // namespace reprieve::simgpu
