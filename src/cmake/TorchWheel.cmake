# The torch that a Python has installed, as a target to compile an adapter against. find_package(Torch) is of no use for
# that: it stops where no CUDA toolkit is installed, and with one it takes the toolkit's headers for those of the wheel.

# reprieve_find_torch(PYTHON): sets torch_wheel_found and, where that is true, torch_wheel_version ("2.11.0+cu130") and the
# target reprieve_torch_wheel; where it is not, torch_wheel_reason is one line.
function(reprieve_find_torch python)
  set(torch_wheel_found OFF PARENT_SCOPE)
  execute_process(
    COMMAND ${python} -c [=[
import importlib.util, pathlib
spec = importlib.util.find_spec("torch")
assert spec and spec.origin, "it has no torch"
root = pathlib.Path(spec.origin).parent
names = {}
exec((root / "version.py").read_text(), names)
assert names.get("cuda"), "its torch is built without CUDA"
assert tuple(map(int, names["__version__"].split("+")[0].split(".")[:2])) >= (2, 11), "its torch is older than 2.11"
print(root, names["__version__"], names["cuda"].split(".")[0], sep=";")
]=]
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE error RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    string(REGEX REPLACE ".*(AssertionError: |Error: )" "" error "${error}")
    string(STRIP "${error}" error)
    set(torch_wheel_reason "${python}: ${error}" PARENT_SCOPE)
    return()
  endif()
  list(GET found 0 root)
  list(GET found 1 version)
  list(GET found 2 cuda_major)
  get_filename_component(site ${root} DIRECTORY)
  foreach(file include/c10/cuda/CUDACachingAllocator.h lib/libc10.so lib/libc10_cuda.so lib/libtorch_cpu.so
               lib/libtorch_cuda.so)
    if(NOT EXISTS ${root}/${file})
      set(torch_wheel_reason "${root} is no torch of a layout known here: it has no ${file}" PARENT_SCOPE)
      return()
    endif()
  endforeach()

  # CUDA's headers: the wheel's own, which are torch's version to the digit; else a toolkit's of the same major version.
  find_path(cuda_headers cuda_runtime_api.h
            PATHS ${site}/nvidia/cu${cuda_major}/include ${site}/nvidia/cuda_runtime/include
                  $ENV{CUDA_HOME}/include /usr/local/cuda-${cuda_major}/include /usr/local/cuda/include
            NO_DEFAULT_PATH NO_CACHE)
  if(NOT cuda_headers)
    set(torch_wheel_reason "no CUDA ${cuda_major} headers: pip install nvidia-cuda-runtime" PARENT_SCOPE)
    return()
  endif()
  # Those of CUDA 13's wheel lack crt/host_config.h; Triton, which torch requires, brings it.
  find_path(crt_headers crt/host_config.h
            PATHS ${cuda_headers} ${site}/triton/backends/nvidia/include ${site}/nvidia/cu${cuda_major}/include
                  /usr/local/cuda/include
            NO_DEFAULT_PATH NO_CACHE)
  if(NOT crt_headers)
    set(torch_wheel_reason "no crt/host_config.h: pip install nvidia-cuda-crt" PARENT_SCOPE)
    return()
  endif()

  # To link with, the CUDA runtime needs to be no more than a name, with the functions that torch calls itself.
  set(runtime ${CMAKE_CURRENT_BINARY_DIR}/link)
  execute_process(COMMAND ${CMAKE_NM} -D --undefined-only ${root}/lib/libc10_cuda.so ${root}/lib/libtorch_cuda.so
                  OUTPUT_VARIABLE imports)
  string(REGEX MATCHALL " U cuda[A-Za-z0-9_]+@" functions "${imports}")
  list(REMOVE_DUPLICATES functions)
  list(TRANSFORM functions REPLACE "^ U (.*)@$" "void \\1() {}")
  list(JOIN functions "\n" definitions)
  file(WRITE ${runtime}/cudart.cpp "extern \"C\" {\n${definitions}\n}\n")
  file(WRITE ${runtime}/cudart.map "libcudart.so.${cuda_major} { global: cuda*; local: *; };\n")
  add_library(reprieve_cudart_link SHARED ${runtime}/cudart.cpp)
  set_target_properties(reprieve_cudart_link PROPERTIES
    OUTPUT_NAME cudart_link NO_SONAME ON CXX_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${runtime})
  target_link_options(reprieve_cudart_link PRIVATE
    LINKER:-soname,libcudart.so.${cuda_major} LINKER:--version-script=${runtime}/cudart.map)

  add_library(reprieve_torch_wheel INTERFACE)
  target_include_directories(reprieve_torch_wheel SYSTEM INTERFACE
    ${root}/include ${root}/include/torch/csrc/api/include ${cuda_headers})
  if(NOT crt_headers STREQUAL cuda_headers)
    target_compile_options(reprieve_torch_wheel INTERFACE "SHELL:-idirafter ${crt_headers}")
  endif()
  target_link_libraries(reprieve_torch_wheel INTERFACE
    ${root}/lib/libc10.so ${root}/lib/libc10_cuda.so ${root}/lib/libtorch_cpu.so ${root}/lib/libtorch_cuda.so
    reprieve_cudart_link)
  # torch's libraries find what they need themselves by their own run path.
  target_link_options(reprieve_torch_wheel INTERFACE LINKER:--allow-shlib-undefined)
  set(torch_wheel_found ON PARENT_SCOPE)
  set(torch_wheel_version ${version} PARENT_SCOPE)
  message(STATUS "torch ${version} at ${root}, CUDA headers at ${cuda_headers}")
endfunction()
