// The process's machine: one for libreprieve's device `sim`, the stand-in CUDA libraries and the C interface (sim.h).
#pragma once

#include <memory>
#include <string>

#include "base/options.hpp"
#include "simgpu/machine.hpp"

namespace reprieve::simgpu {

// Who asks. It decides what the options' `auto` means: under the stand-in runtime work runs eagerly and fresh memory
// is poisoned on use, else neither.
enum class User : std::uint8_t { library, standin };

// Shared by all who hold it; when the last has let go, the next call makes a new one. Null, and one line in `error`,
// where the options are not acceptable, or where a machine runs that was made with another number of devices or other
// capacities. Any thread.
//
// The library's destructors may run while other threads still call in, so whoever serves a whole process (the
// stand-ins) keeps its pointer in an object that is never destroyed.
std::shared_ptr<Machine> process_machine(const Options& options, User user, std::string& error);

// With the options of the environment.
std::shared_ptr<Machine> process_machine(User user, std::string& error);

// The machine if there is one, else null; makes none.
std::shared_ptr<Machine> running_machine();

// The options that the running machine was made with; the table's defaults where there is none.
Options process_options();

}  // namespace reprieve::simgpu
