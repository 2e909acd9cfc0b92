# fmt and spdlog are used header-only: from the system where it has them, else fetched at pinned versions that fit each
# other. GoogleTest and Google Benchmark come from the system.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_package(fmt 8.1 QUIET)
find_package(spdlog 1.9 QUIET)
if(NOT fmt_FOUND OR NOT spdlog_FOUND)
  message(STATUS "fmt or spdlog is not installed (libfmt-dev, libspdlog-dev): fetching fmt 9.1.0 and spdlog 1.11.0")
  include(FetchContent)
  set(FMT_INSTALL OFF)
  set(SPDLOG_INSTALL OFF)
  set(SPDLOG_FMT_EXTERNAL_HO ON)
  FetchContent_Declare(fmt GIT_REPOSITORY https://github.com/fmtlib/fmt.git GIT_TAG 9.1.0 GIT_SHALLOW ON)
  FetchContent_Declare(spdlog GIT_REPOSITORY https://github.com/gabime/spdlog.git GIT_TAG v1.11.0 GIT_SHALLOW ON)
  FetchContent_MakeAvailable(fmt spdlog)
endif()
get_target_property(spdlog_imported spdlog::spdlog_header_only IMPORTED)
if(spdlog_imported)
  # Debian's spdlog names the compiled fmt, which would make libreprieve.so depend on libfmt.so.
  set_target_properties(spdlog::spdlog_header_only PROPERTIES
                        INTERFACE_LINK_LIBRARIES "Threads::Threads;fmt::fmt-header-only")
endif()
target_link_libraries(reprieve_settings INTERFACE fmt::fmt-header-only)

# Stops with the package to install when a part that was asked for needs what the system has not.
macro(reprieve_require package debian_name what)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${what} needs ${package}, which is not installed: apt-get install ${debian_name}")
  endif()
endmacro()
if(REPRIEVE_TESTS)
  reprieve_require(GTest libgtest-dev "REPRIEVE_TESTS=ON")
endif()
if(REPRIEVE_BENCHMARKS)
  reprieve_require(benchmark libbenchmark-dev "REPRIEVE_BENCHMARKS=ON")
endif()
