// Every function answers with bytes: a 0 and its result, or a 1, the class of a failure, a line feed and what happened.
//
// Nothing here judges: once a kernel has run in this process, anything in it may be wrong. The host compares digests of
// outputs with those it has computed, and the parent ends the process.
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "arguments.h"
#include "gpu.h"
#include "sha256.h"

namespace int8tune {
namespace {

constexpr size_t kGuardBytes = 4096;
constexpr rlim_t kMostFileBytes = 1 << 20;
constexpr double kLongRepeatS = 0.05;
constexpr double kHeadroom = 1.1;
constexpr double kLargestStep = 100;
constexpr int kMostVoid = 8;
constexpr size_t kMostCopies = 1024;
constexpr int kOthersLimitMs = 5000;

struct Program {
  TVMFFIObjectHandle function = nullptr;
  std::vector<Case> cases;
  // With `cold_bytes` each call takes another copy of the inputs whose bits are set; of all, and the output, if none is.
  size_t cold_bytes = 0;
  uint64_t cold_inputs = 0;
  std::vector<std::unique_ptr<Call>> timed;
  size_t turn = 0;
};

struct Session {
  std::string cases;
  std::string work;
  int gpu = kNoGpu;
  int others = -1;
  std::unique_ptr<Device> opened;
  std::vector<Program> programs;
  int libraries = 0;
  std::string output;
};

Session session;

Device& UsedDevice() {
  if (session.gpu == kNoGpu) return Host();
  if (!session.opened) session.opened = OpenGpu(session.gpu);
  return *session.opened;
}

long InvoluntarySwitches() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

TVMFFIByteArray Bytes(const std::string& text) { return {text.data(), text.size()}; }

// What TVM says of a call that failed.
Failure Raised() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (!error) return {"RuntimeError", "failed without a message"};
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  Failure failure{std::string(cell->kind.data, cell->kind.size), std::string(cell->message.data, cell->message.size)};
  TVMFFIObjectDecRef(error);
  return failure;
}

TVMFFIObjectHandle GlobalFunction(const char* name) {
  std::string text = name;
  TVMFFIByteArray bytes = Bytes(text);
  TVMFFIObjectHandle function = nullptr;
  if (TVMFFIFunctionGetGlobal(&bytes, &function) != 0 || !function) throw Failure{"RuntimeError", text + " is missing"};
  return function;
}

TVMFFIAny Text(const char* text) {
  TVMFFIAny any = {};
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = text;
  return any;
}

TVMFFIAny CallGlobal(const char* name, std::vector<TVMFFIAny> arguments) {
  TVMFFIAny result = {};
  int32_t count = int32_t(arguments.size());
  if (TVMFFIFunctionCall(GlobalFunction(name), arguments.data(), count, &result) != 0) throw Raised();
  return result;
}

void WriteFile(const std::string& path, const char* data, size_t size) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  if (file < 0) throw Failure{"NoRoom", std::string("a library can't be written: ") + strerror(errno)};
  size_t done = 0;
  while (done < size) {
    ssize_t written = write(file, data + done, size - done);
    if (written <= 0) {
      int why = errno;
      close(file);
      throw Failure{"NoRoom", std::string("a library can't be written: ") + strerror(why)};
    }
    done += size_t(written);
  }
  close(file);
}

void Invoke(const Program& program, Call& call) {
  TVMFFIAny result = {};
  if (TVMFFIFunctionCall(program.function, call.arguments.data(), int32_t(call.arguments.size()), &result) != 0) {
    throw Raised();
  }
}

uint8_t GuardByte(size_t place, int64_t salt) { return uint8_t(place * 131 + size_t(salt) * 17 + 89); }

Program& ProgramAt(int64_t index) {
  if (index < 0 || size_t(index) >= session.programs.size()) throw Failure{"ValueError", "no such program"};
  return session.programs[size_t(index)];
}

size_t Copies(const Program& program) {
  if (!program.cold_bytes) return 1;
  const Case& first = program.cases[0];
  size_t own = program.cold_inputs ? 0 : first.output.bytes;
  for (size_t input = 0; input < first.inputs.size(); ++input) {
    if (!program.cold_inputs || HasBit(program.cold_inputs, input)) own += first.inputs[input].bytes;
  }
  return std::min(program.cold_bytes / std::max<size_t>(own, 1) + 2, kMostCopies);
}

void MakeTimedCalls(Program& program) {
  Case& first = program.cases[0];
  for (size_t copies = Copies(program); program.timed.size() < copies;) {
    if (program.cold_inputs && !program.timed.empty()) {
      const Call& shared = *program.timed[0];
      program.timed.push_back(MakeCallBeside(UsedDevice(), session.cases, first, shared, program.cold_inputs));
    } else {
      program.timed.push_back(MakeCall(UsedDevice(), session.cases, first, 0));
    }
  }
}

// Seconds per call: of the same arguments after a call that is not counted, or of one cold copy after the other.
double MeanS(Program& program, int64_t calls) {
  if (program.timed.empty()) MakeTimedCalls(program);
  size_t copies = program.timed.size();
  if (copies == 1 || !UsedDevice().IsHost()) Invoke(program, *program.timed[0]);
  double taken = UsedDevice().Seconds([&] {
    for (int64_t i = 0; i < calls; ++i) {
      Invoke(program, *program.timed[program.turn]);
      if (++program.turn == copies) program.turn = 0;
    }
  });
  return taken / double(calls);
}

// Other processes begin CUDA on this GPU; a driver that takes longer than this has a fault.
void WaitUntilOthersStarted() {
  pollfd wait = {session.others, 0, 0};
  if (session.others >= 0) poll(&wait, 1, kOthersLimitMs), close(session.others);
  session.others = -1;
}

// `MeanS`, again where another process had the core meanwhile; the fastest of some where it always had. A GPU's own
// events time what runs there, whoever has the core.
double UndisturbedMeanS(Program& program, int64_t calls, int64_t* voids) {
  if (!UsedDevice().IsHost()) return MeanS(program, calls);
  double fastest = 0;
  for (int tried = 0; tried < kMostVoid; ++tried) {
    long before = InvoluntarySwitches();
    double mean = MeanS(program, calls);
    if (InvoluntarySwitches() == before) return mean;
    ++*voids;
    fastest = tried == 0 ? mean : std::min(fastest, mean);
    if (mean * double(calls) > kLongRepeatS) break;
  }
  return fastest;
}

// load(library, sha256, entry): the library is loaded only if it is the one that was built.
std::string Load(const TVMFFIByteArray& library, const std::string& expected, const std::string& entry) {
  Digest digest = Sha256Of(library.data, library.size);
  if (Hex(digest.data(), digest.size()) != expected) {
    throw Failure{"HashMismatch", "library is not the one that was built: sha256 " + Hex(digest.data(), digest.size())};
  }
  std::string path = session.work + "/" + std::to_string(session.libraries++) + ".so";
  WriteFile(path, library.data, library.size);
  UsedDevice();  // which knows how to load what is in the library
  TVMFFIAny module;
  try {
    module = CallGlobal("ffi.ModuleLoadFromFile", {Text(path.c_str())});
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
  unlink(path.c_str());
  TVMFFIAny imports = {};
  imports.type_index = kTVMFFIBool;
  TVMFFIAny found = CallGlobal("ffi.ModuleGetFunction", {module, Text(entry.c_str()), imports});
  if (found.type_index != kTVMFFIFunction) throw Failure{"AttributeError", "Module has no function '" + entry + "'"};
  session.programs.emplace_back();
  session.programs.back().function = found.v_obj;
  return "";
}

// add_case(program, count of inputs, arrays): each array is its digest, type code, bits, axes and extents.
std::string AddCase(int64_t program, int64_t inputs, const std::string& arrays) {
  std::istringstream words(arrays);
  Case added;
  for (int64_t index = 0; index < inputs; ++index) added.inputs.push_back(ParseArray(words));
  added.output = ParseArray(words);
  ProgramAt(program).cases.push_back(std::move(added));
  return "";
}

// run(program, case, salt): the output's digest, how many guard bytes changed, and the first one of them.
std::string Run(int64_t index, int64_t number, int64_t salt) {
  rlimit files = {kMostFileBytes, kMostFileBytes};
  setrlimit(RLIMIT_FSIZE, &files);
  Program& program = ProgramAt(index);
  if (number < 0 || size_t(number) >= program.cases.size()) throw Failure{"ValueError", "no such case"};
  Case& which = program.cases[size_t(number)];
  auto call = MakeCall(UsedDevice(), session.cases, which, kGuardBytes);
  Memory& memory = *call->memory.back();
  uint8_t* before = memory.host();
  uint8_t* output = before + kGuardBytes;
  uint8_t* after = output + which.output.bytes;
  for (size_t place = 0; place < kGuardBytes; ++place) {
    before[place] = GuardByte(place, salt);
    after[place] = GuardByte(kGuardBytes + place, salt);
  }
  memset(output, int(0xA5 + 0x3B * salt) & 0xFF, which.output.bytes);
  memory.Push();
  Invoke(program, *call);
  UsedDevice().Wait();
  memory.Pull();
  int64_t changed = 0, first = 0;
  for (size_t place = 0; place < kGuardBytes; ++place) {
    if (before[place] != GuardByte(place, salt) && changed++ == 0) first = int64_t(place) - int64_t(kGuardBytes);
  }
  for (size_t place = 0; place < kGuardBytes; ++place) {
    if (after[place] != GuardByte(kGuardBytes + place, salt) && changed++ == 0) {
      first = int64_t(which.output.bytes + place);
    }
  }
  session.output.assign(reinterpret_cast<char*>(output), which.output.bytes);
  Digest digest = Sha256Of(session.output.data(), session.output.size());
  std::string answer(reinterpret_cast<char*>(digest.data()), digest.size());
  answer.append(reinterpret_cast<char*>(&changed), sizeof changed);
  answer.append(reinterpret_cast<char*>(&first), sizeof first);
  return answer;
}

// calls(program, seconds, slow): how many calls take so many seconds, twice in a row; one, if that is slow.
std::string Calls(int64_t index, double seconds, double slow) {
  Program& program = ProgramAt(index);
  int64_t calls = 1, voids = 0;
  for (;;) {
    double first = UndisturbedMeanS(program, calls, &voids), second = UndisturbedMeanS(program, calls, &voids);
    double taken = std::min(first, second) * double(calls);
    if (taken >= seconds || (calls == 1 && taken > slow)) break;
    double step = taken > 0 ? std::min(kHeadroom * seconds / taken, kLargestStep) : kLargestStep;
    calls = std::max(calls + 1, int64_t(double(calls) * step) + 1);
  }
  std::string answer(reinterpret_cast<char*>(&calls), sizeof calls);
  return answer.append(reinterpret_cast<char*>(&voids), sizeof voids);
}

// state(): lines `name=value` of numbers, such as a GPU's clocks just after it was timed.
std::string State() {
  std::ostringstream lines;
  lines.precision(17);
  for (const auto& [name, value] : UsedDevice().State()) lines << name << "=" << value << "\n";
  return lines.str();
}

// time(turns): each turn is a program and its calls; the seconds per call of each, and how many repeats were void.
std::string Time(const TVMFFIByteArray& turns) {
  std::string answer;
  int64_t voids = 0;
  WaitUntilOthersStarted();
  for (size_t place = 0; place + 16 <= turns.size; place += 16) {
    int64_t turn[2];
    memcpy(turn, turns.data + place, sizeof turn);
    double mean = UndisturbedMeanS(ProgramAt(turn[0]), std::max<int64_t>(turn[1], 1), &voids);
    answer.append(reinterpret_cast<char*>(&mean), sizeof mean);
  }
  return answer.append(reinterpret_cast<char*>(&voids), sizeof voids);
}

std::string SetCold(int64_t program, int64_t bytes, int64_t inputs) {
  ProgramAt(program).cold_bytes = size_t(std::max<int64_t>(bytes, 0));
  ProgramAt(program).cold_inputs = uint64_t(inputs);
  return "";
}

TVMFFIByteArray BytesAt(const TVMFFIAny* arguments, int32_t count, int index) {
  if (index >= count) throw Failure{"ValueError", "an argument is missing"};
  const TVMFFIAny& any = arguments[index];
  switch (any.type_index) {
    case kTVMFFIByteArrayPtr:
      return *static_cast<TVMFFIByteArray*>(any.v_ptr);
    case kTVMFFIRawStr:
      return {any.v_c_str, strlen(any.v_c_str)};
    case kTVMFFISmallStr:
    case kTVMFFISmallBytes:
      return {any.v_bytes, any.small_str_len};
    case kTVMFFIStr:
    case kTVMFFIBytes:
      return *TVMFFIBytesGetByteArrayPtr(any.v_obj);
    default:
      throw Failure{"ValueError", "an argument is no text"};
  }
}

std::string TextAt(const TVMFFIAny* arguments, int32_t count, int index) {
  TVMFFIByteArray bytes = BytesAt(arguments, count, index);
  return std::string(bytes.data, bytes.size);
}

int64_t IntegerAt(const TVMFFIAny* arguments, int32_t count, int index) {
  if (index >= count || arguments[index].type_index != kTVMFFIInt) throw Failure{"ValueError", "no integer"};
  return arguments[index].v_int64;
}

double NumberAt(const TVMFFIAny* arguments, int32_t count, int index) {
  if (index >= count || arguments[index].type_index != kTVMFFIFloat) throw Failure{"ValueError", "no number"};
  return arguments[index].v_float64;
}

using Handler = std::string (*)(const TVMFFIAny*, int32_t);

struct Entry {
  const char* name;
  Handler handler;
};

constexpr Entry kFunctions[] = {
    {"int8tune.load",
     [](const TVMFFIAny* a, int32_t n) { return Load(BytesAt(a, n, 0), TextAt(a, n, 1), TextAt(a, n, 2)); }},
    {"int8tune.add_case",
     [](const TVMFFIAny* a, int32_t n) { return AddCase(IntegerAt(a, n, 0), IntegerAt(a, n, 1), TextAt(a, n, 2)); }},
    {"int8tune.run",
     [](const TVMFFIAny* a, int32_t n) { return Run(IntegerAt(a, n, 0), IntegerAt(a, n, 1), IntegerAt(a, n, 2)); }},
    {"int8tune.output", [](const TVMFFIAny*, int32_t) { return session.output; }},
    {"int8tune.calls",
     [](const TVMFFIAny* a, int32_t n) { return Calls(IntegerAt(a, n, 0), NumberAt(a, n, 1), NumberAt(a, n, 2)); }},
    {"int8tune.time", [](const TVMFFIAny* a, int32_t n) { return Time(BytesAt(a, n, 0)); }},
    {"int8tune.state", [](const TVMFFIAny*, int32_t) { return State(); }},
    {"int8tune.set_cold",
     [](const TVMFFIAny* a, int32_t n) { return SetCold(IntegerAt(a, n, 0), IntegerAt(a, n, 1), IntegerAt(a, n, 2)); }},
};

// No exception crosses the border: the runtime may have another C++ library's.
int Dispatch(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  std::string answer;
  try {
    answer = std::string(1, '\0') + static_cast<const Entry*>(self)->handler(arguments, count);
  } catch (const Failure& failure) {
    answer = "\1" + failure.kind + "\n" + failure.text;
  } catch (const std::bad_alloc&) {
    answer = "\1MemoryError\nno memory left";
  }
  TVMFFIByteArray bytes = Bytes(answer);
  return TVMFFIBytesFromByteArray(&bytes, result);
}

}  // namespace

bool RegisterFunctions() {
  for (const Entry& entry : kFunctions) {
    TVMFFIObjectHandle function = nullptr;
    std::string text = entry.name;
    TVMFFIByteArray name = Bytes(text);
    if (TVMFFIFunctionCreate(const_cast<Entry*>(&entry), Dispatch, nullptr, &function) != 0) return false;
    if (TVMFFIFunctionSetGlobal(&name, function, 1) != 0) return false;
  }
  return true;
}

std::string BeginDevice(int gpu) {
  session.gpu = gpu;
  try {
    return UsedDevice().About();
  } catch (const Failure& failure) {
    std::string text = failure.text;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return "gpu_fault=" + text + "\n";
  }
}

void ServeSession(int socket, const std::string& cases, const std::string& work, int others) {
  session.cases = cases;
  session.work = work;
  session.others = others;
  TVMFFIAny descriptor = {};
  descriptor.type_index = kTVMFFIInt;
  descriptor.v_int64 = socket;
  try {
    CallGlobal("rpc.ServerLoop", {descriptor});
  } catch (const Failure& failure) {
    dprintf(2, "%s: %s\n", failure.kind.c_str(), failure.text.c_str());
    _exit(1);
  }
  _exit(0);
}

}  // namespace int8tune
