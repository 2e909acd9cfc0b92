// A library that says it is the CUDA driver: it has no memory and does no work, but answers as the test sets it to, and
// notes what it was asked. For what cannot be provoked on a real GPU: old drivers, refusals, missing entries.
#pragma once

#include <string>

#include "device/driver_api.hpp"

namespace fake_driver {

namespace driver = reprieve::device::driver;

struct State {
  // How it answers.
  int version = 13000;
  driver::Result init = driver::success;
  int devices = 2;
  int virtual_memory = 1;
  int posix_fd = 1;
  int rdma = 1;
  int numa_node = 0;
  std::string missing;  // an entry that it does not have
  std::string failing;  // an entry that returns `failure`
  driver::Result failure = driver::success;
  bool refuse_rdma = false;
  bool refuse_fd = false;
  bool refuse_numa = false;
  bool event_done = true;

  // What it saw.
  int creates = 0;  // also those that failed
  driver::AllocationProperties created{};
  int handles = 0;  // made and not released
  int reservations = 0;
  int mappings = 0;
  int retained = 0;
  int pushes = 0;
  int queries = 0;
  int unrelaxed_queries = 0;  // that a capture of the calling thread would have forbidden
  int without_context = 0;    // calls that need the device's context and had another one
};

}  // namespace fake_driver

// Both found by dlsym. The current context and the capture mode belong to the calling thread.
extern "C" fake_driver::State* fake_driver_state();
extern "C" void fake_driver_reset();
