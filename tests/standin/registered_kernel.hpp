// Kernels as nvcc's code registers them, without nvcc: a name, and a host function whose address stands for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** binary);
void __cudaUnregisterFatBinary(void** binary);
void __cudaRegisterFunction(void** binary, const char* host_function, char* device_function, const char* name,
                            int thread_limit, uint3* thread, uint3* block, dim3* block_shape, dim3* grid_shape,
                            int* warp_size);
void __cudaRegisterVar(void** binary, char* symbol, char* address, const char* name, int external, std::size_t bytes,
                       int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream);
}

namespace reprieve::standin {

class RegisteredKernel {
 public:
  explicit RegisteredKernel(const char* name) : binary_(__cudaRegisterFatBinary(nullptr)) {
    __cudaRegisterFunction(binary_, &host_function_, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(binary_);
  }
  ~RegisteredKernel() { __cudaUnregisterFatBinary(binary_); }
  RegisteredKernel(const RegisteredKernel&) = delete;
  RegisteredKernel& operator=(const RegisteredKernel&) = delete;

  const void* function() const { return &host_function_; }

 private:
  char host_function_ = 0;
  void** binary_;
};

}  // namespace reprieve::standin
