// The process of one session: TVM's session protocol on a socket, and the functions that a host calls by it.
#pragma once

#include <string>

namespace int8tune {

// Registers the functions; once, before the first session is forked.
bool RegisterFunctions();

constexpr int kNoGpu = -1;

// Starts what kernels run on: the GPU of that number, or this machine. Lines `name=value` of the GPU, or `gpu_fault=` and
// why it can't be used, which is then said where a library is loaded, too.
std::string BeginDevice(int gpu);

// Serves until the other side ends the session. Cases are read from `cases`, libraries written to `work`. Nothing is timed
// before the descriptor `others` has no writers, if it is one.
void ServeSession(int socket, const std::string& cases, const std::string& work, int others);

}  // namespace int8tune
