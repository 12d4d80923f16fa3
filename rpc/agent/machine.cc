#include "machine.h"

#include <sched.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace int8tune {
namespace {

#if defined(__aarch64__)
struct Feature {
  int word;
  int bit;
  const char* name;
};

// Bits of AT_HWCAP and AT_HWCAP2 by Linux's names (arch/arm64/include/uapi/asm/hwcap.h).
constexpr Feature kFeatures[] = {
    {0, 0, "fp"},       {0, 1, "asimd"},    {0, 3, "aes"},      {0, 4, "pmull"},   {0, 5, "sha1"},    {0, 6, "sha2"},
    {0, 7, "crc32"},     {0, 8, "atomics"},   {0, 9, "fphp"},    {0, 10, "asimdhp"}, {0, 11, "cpuid"},
    {0, 12, "asimdrdm"}, {0, 13, "jscvt"},    {0, 14, "fcma"},   {0, 15, "lrcpc"},   {0, 16, "dcpop"},
    {0, 17, "sha3"},     {0, 20, "asimddp"},  {0, 21, "sha512"}, {0, 22, "sve"},     {0, 23, "asimdfhm"},
    {0, 26, "ilrcpc"},   {1, 1, "sve2"},      {1, 9, "svei8mm"}, {1, 13, "i8mm"},    {1, 14, "bf16"}};

std::string Features() {
  const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  std::string names;
  for (const Feature& feature : kFeatures) {
    if (words[feature.word] >> feature.bit & 1) names += std::string(names.empty() ? "" : " ") + feature.name;
  }
  return names;
}

// The implementer's and the part's numbers, which Linux reads for a process (HWCAP_CPUID).
std::string Cpu() {
  if (!(getauxval(AT_HWCAP) >> 11 & 1)) return "";
  uint64_t midr;
  asm("mrs %0, MIDR_EL1" : "=r"(midr));
  char text[64];
  unsigned implementer = midr >> 24 & 0xff, part = midr >> 4 & 0xfff;
  snprintf(text, sizeof text, "implementer 0x%02x part 0x%03x", implementer, part);
  return text;
}
#else
std::string CpuInfo(const char* name) {
  FILE* file = fopen("/proc/cpuinfo", "r");
  if (!file) return "";
  static char line[1 << 15];
  std::string value;
  while (value.empty() && fgets(line, sizeof line, file)) {
    if (strncmp(line, name, strlen(name)) != 0) continue;
    const char* colon = strchr(line, ':');
    if (colon) value = std::string(colon + 2, strcspn(colon + 2, "\n"));
  }
  fclose(file);
  return value;
}

// Linux gives AMX to processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA).
std::string Features() {
  std::string names = CpuInfo("flags");
#if defined(__x86_64__)
  if (names.find(" amx_") != std::string::npos && syscall(SYS_arch_prctl, 0x1023, 18) != 0) names += " -amx";
#endif
  return names;
}

std::string Cpu() { return CpuInfo("model name"); }
#endif

std::string Line(const std::string& name, const std::string& value) { return name + "=" + value + "\n"; }

std::string CpuFolder(int core) { return "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/"; }

int FirstCore() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) return core;
  }
  return 0;
}

std::string Cores() {
  cpu_set_t set;
  std::string cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "0";
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores += (cores.empty() ? "" : ",") + std::to_string(core);
  }
  return cores;
}

std::string Caches() {
  std::string caches;
  for (int index = 0; index < 8; ++index) {
    std::string folder = CpuFolder(FirstCore()) + "cache/index" + std::to_string(index) + "/";
    std::string size = FirstLine(folder + "size"), kind = FirstLine(folder + "type");
    if (size.empty() || (kind != "Data" && kind != "Unified")) continue;
    caches += (caches.empty() ? "L" : " L") + FirstLine(folder + "level") + ":" + size;
  }
  return caches;
}

std::string MemoryLine(const char* name) {
  FILE* file = fopen("/proc/meminfo", "r");
  if (!file) return "";
  char line[256];
  unsigned long long kib = 0;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
      sscanf(line + strlen(name) + 1, "%llu", &kib);
      break;
    }
  }
  fclose(file);
  return std::to_string(kib << 10);
}

}  // namespace

std::string FirstLine(const std::string& path) {
  FILE* file = fopen(path.c_str(), "r");
  if (!file) return "";
  char line[512] = "";
  if (!fgets(line, sizeof line, file)) line[0] = 0;
  fclose(file);
  line[strcspn(line, "\n")] = 0;
  return line;
}

std::string AboutMachine() {
  utsname names;
  uname(&names);
  TVMFFIVersion version;
  TVMFFIGetVersion(&version);
  std::string ffi =
      std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
  return Line("architecture", names.machine) + Line("kernel", names.release) + Line("cpu", Cpu()) +
         Line("features", Features()) + Line("cores", Cores()) + Line("caches", Caches()) +
         Line("memory_bytes", MemoryLine("MemTotal")) + Line("boot", FirstLine("/proc/sys/kernel/random/boot_id")) + Line("tvm_ffi", ffi);
}

std::string StateOfMachine(const std::string& folder) {
  struct statvfs disk;
  std::string free_bytes = "";
  if (statvfs(folder.c_str(), &disk) == 0) free_bytes = std::to_string(uint64_t(disk.f_bavail) * disk.f_frsize);
  std::string clock = CpuFolder(FirstCore()) + "cpufreq/";
  return Line("governor", FirstLine(clock + "scaling_governor")) +
         Line("frequency_khz", FirstLine(clock + "scaling_cur_freq")) +
         Line("temperature_mc", FirstLine("/sys/class/thermal/thermal_zone0/temp")) +
         Line("load", FirstLine("/proc/loadavg")) + Line("memory_free_bytes", MemoryLine("MemAvailable")) +
         Line("disk_free_bytes", free_bytes);
}

}  // namespace int8tune
