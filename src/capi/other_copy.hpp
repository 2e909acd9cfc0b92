// One copy of the library a process: two would each believe that they own the device.
#pragma once

#include <string>

namespace reprieve::capi {

// True if another copy, loaded from elsewhere, has started; `reason` then names both files.
bool other_copy_started(std::string& reason);

}  // namespace reprieve::capi
