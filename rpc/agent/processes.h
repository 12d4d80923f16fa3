// Processes of this machine, and how those that this one started are ended.
#pragma once

#include <string>
#include <vector>

namespace int8tune {

// Seconds of a clock that nobody sets.
double Now();

std::vector<int> Processes();

// The whole of a file; empty where it can't be read.
std::string ReadAll(const std::string& path);

// A process and the group it leads.
void Kill(int pid);

// Ends every child but those of `kept`, and those that come up as orphans meanwhile; how many are left. What has ended
// is taken out of `kept`.
int EndChildren(double limit_s, std::vector<int>* kept = nullptr);

}  // namespace int8tune
