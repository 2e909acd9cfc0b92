// Failures as the C interface tells them: a code, and a line of text that the calling thread keeps.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "memory/allocator.hpp"
#include "reprieve/reprieve.h"

namespace reprieve::capi {

reprieve_status to_c(Errc code);

const char* last_error();
int last_driver_error();

// Remembers `text` for the calling thread and returns the status' code.
reprieve_status report(const Status& status, std::string text);

// The same with a text made from what the status knows. `allocator`: where the driver's own words come from; may be
// null.
reprieve_status report(const Status& status, const memory::Allocator* allocator);

// An allocation's failure; an out-of-memory begins as torch's does, which trainers look for.
reprieve_status report_allocation(const Status& status, memory::Allocator& allocator, std::uint64_t bytes);

}  // namespace reprieve::capi
