// What a board says of itself.
#pragma once

#include <string>

namespace int8tune {

// Lines `name=value` of what does not change: architecture, features, caches, memory, versions.
std::string AboutMachine();

// Lines `name=value` of what does: governor, frequency, temperature, free memory and disk.
std::string StateOfMachine(const std::string& folder);

// The first line of a file; empty where it can't be read.
std::string FirstLine(const std::string& path);

}  // namespace int8tune
