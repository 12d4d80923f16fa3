// The process of one session: TVM's session protocol on a socket, and the functions that a host calls by it.
#pragma once

#include <string>

namespace int8tune {

// Registers the functions; once, before the first session is forked.
bool RegisterFunctions();

// Serves until the other side ends the session. Cases are read from `cases`, libraries written to `work`.
void ServeSession(int socket, const std::string& cases, const std::string& work);

}  // namespace int8tune
