// The process of one session: TVM's session protocol on a socket, and the functions that a host calls by it.
#pragma once

#include <string>

namespace int8tune {

// Registers the functions; once, before the first session is forked.
bool RegisterFunctions();

constexpr int kNoGpu = -1;

// Serves until the other side ends the session. Cases are read from `cases`, libraries written to `work`; kernels run on
// the GPU of that number, or here.
void ServeSession(int socket, const std::string& cases, const std::string& work, int gpu);

}  // namespace int8tune
