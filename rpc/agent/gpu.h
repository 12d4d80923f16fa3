// A GPU of NVIDIA's. CUDA begins in a session's own process: a process that has begun it must not fork.
#pragma once

#include <memory>
#include <string>

#include "device.h"

namespace int8tune {

// The GPU of this number. Its libraries are looked for in this process's library path.
// Throws `Failure`, of class `GpuUnusable`, where there is no GPU, no driver, or one that is too old.
std::unique_ptr<Device> OpenGpu(int number);

}  // namespace int8tune
