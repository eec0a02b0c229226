#include "kernels/cuda/runtime.h"

#include <cuda_runtime.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "kernels/base/error.h"

namespace octet::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  REQUIRE(status == cudaSuccess, "see `nvidia-smi`; `--set backend.check_kernels=true` names the kernel that failed",
          what, ": ", cudaGetErrorString(status));
}
cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t native(Event event) { return static_cast<cudaEvent_t>(event.handle); }

// "encode_kernel<Plain<...> >" if the runtime knows it: the name written at the launch may be that of several kernels.
std::string name_of_kernel(const char* written, const void* function) {
#if CUDART_VERSION >= 12030
  const char* mangled = nullptr;
  if (function == nullptr) return written;
  if (cudaFuncGetName(&mangled, function) != cudaSuccess) {
    cudaGetLastError();  // clears it: no kernel failed
    return written;
  }
  const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr),
                                                          &std::free);
  if (!plain) return mangled;
  std::string name = plain.get();
  for (const std::string noise : {"octet::cuda::", "(anonymous namespace)::", "octet::", "void "})
    for (size_t at = name.find(noise); at != std::string::npos; at = name.find(noise)) name.erase(at, noise.size());
  const size_t after_template = name.rfind(">(");
  return name.substr(0, after_template != std::string::npos ? after_template + 1 : name.find('('));
#else
  (void)function;
  return written;
#endif
}

double gigabytes(size_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

Device open_device(int index, bool share) {
  int count = 0, driver = 0;
  cudaDriverGetVersion(&driver);
  const cudaError_t status = cudaGetDeviceCount(&count);
  REQUIRE_USAGE(driver != 0 && status != cudaErrorInsufficientDriver,
                "install the NVIDIA driver of this CUDA version or a newer one, or set backend.device: cpu",
                driver == 0 ? "backend.device: cuda needs the NVIDIA driver, which is not here"
                            : "the NVIDIA driver is older than the CUDA version octet was built with");
  REQUIRE_USAGE(status != cudaErrorNoDevice && (status != cudaSuccess || count > 0),
                "run where `nvidia-smi` lists a GPU, check CUDA_VISIBLE_DEVICES, or set backend.device: cpu",
                "backend.device: cuda finds no GPU");
  check(status, "looking for GPUs");
  if (share) index %= count;
  REQUIRE_USAGE(
      index < count,
      say("start at most ", count,
          " rank(s) on this machine; where each sees a GPU of its own alone, let all see all (srun --gpu-bind=none); "
          "for a test set backend.share_gpu: true"),
      "rank ", index, " of this machine has no GPU of its own: there are ", count);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "asking for the GPU's properties");
  const std::string architecture = say("sm_", properties.major, properties.minor);
  REQUIRE_USAGE(properties.major * 10 + properties.minor >= 75, "use a GPU of the Turing generation or newer",
                properties.name, " is ", architecture,
                "; the int8 tensor cores of sm_75 are the least that octet needs");
  check(cudaSetDevice(index), "choosing the GPU");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return {properties.name, properties.major, properties.minor, properties.multiProcessorCount, free, total, index};
}

Stream make_stream(KernelClock* clock) {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return {stream, clock};
}
void destroy_stream(Stream stream) {
  cudaStreamSynchronize(native(stream));
  cudaStreamDestroy(native(stream));
}

void* allocate_device(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  REQUIRE(status != cudaErrorMemoryAllocation, "use a smaller data.batch, or storage: bf16", "the GPU has ",
          gigabytes(free_bytes()), " GB free, ", gigabytes(bytes), " GB more are needed");
  check(status, "allocating device memory");
  return memory;
}
void release(void* memory) { cudaFree(memory); }
void* allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "allocating pinned memory");
  return memory;
}
void release_pinned(void* memory) { cudaFreeHost(memory); }

size_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return free;
}

void copy_to_device(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes == 0) return;  // `from` may be null, which has no memory type
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)), "copying to the GPU");
  // If the GPU reads the host's memory itself, the copy may happen after the call.
  cudaPointerAttributes memory = {};
  int device = 0, reads_the_hosts = 0;
  check(cudaPointerGetAttributes(&memory, from), "asking for the memory's kind");
  check(cudaGetDevice(&device), "asking for the GPU");
  check(cudaDeviceGetAttribute(&reads_the_hosts, cudaDevAttrPageableMemoryAccess, device),
        "asking for the GPU's properties");
  if (reads_the_hosts && memory.type == cudaMemoryTypeUnregistered) synchronize(stream);
}
void copy_to_host(void* to, const void* from, size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, native(stream)), "copying from the GPU");
  synchronize(stream);
}
void copy_to_pinned(void* to, const void* from, size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, native(stream)), "copying from the GPU");
}
void copy_from_pinned(void* to, const void* from, size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)), "copying to the GPU");
}
void call_host(void (*function)(void*), void* argument, Stream stream) {
  check(cudaLaunchHostFunc(native(stream), function, argument), "calling the host");
}
void copy_on_device(void* to, const void* from, size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)), "copying on the GPU");
}
void fill_zero(void* to, size_t bytes, Stream stream) {
  check(cudaMemsetAsync(to, 0, bytes, native(stream)), "clearing memory");
}
void synchronize(Stream stream) { check(cudaStreamSynchronize(native(stream)), "waiting for the GPU"); }
bool idle(Stream stream) {
  const cudaError_t status = cudaStreamQuery(native(stream));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // or the next check_launch() might take it for its kernel's
    return false;
  }
  check(status, "asking whether the GPU is done");
  return true;
}

Event make_event() {
  cudaEvent_t event;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return {event};
}
void destroy_event(Event event) { cudaEventDestroy(native(event)); }
void record(Event event, Stream stream) { check(cudaEventRecord(native(event), native(stream)), "recording an event"); }
void wait_for(Event event, Stream stream) {
  check(cudaStreamWaitEvent(native(stream), native(event), 0), "waiting for an event");
}

void begin_recording(Stream stream) {
  check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "beginning to record a program");
}
Recording end_recording(Stream stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(native(stream), &graph), "recording a program");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "making a program of what was recorded");
  return Recording(executable);
}
void abandon_recording(Stream stream) {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(native(stream), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // the caller reports why it abandons the recording
}
Recording::~Recording() {
  if (handle_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_));
}
void Recording::play(Stream stream) const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), native(stream)), "starting a recorded program");
}

KernelClock::KernelClock() {
  for (void** event : {&start_, &end_})
    check(cudaEventCreate(reinterpret_cast<cudaEvent_t*>(event)), "making an event");
}
KernelClock::~KernelClock() {
  for (void* event : {start_, end_}) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}
void KernelClock::start(Stream stream) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(start_), native(stream)), "recording an event");
}
void KernelClock::stop(const std::string& kernel, Stream stream) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(end_), native(stream)), kernel.c_str());
  check(cudaStreamSynchronize(native(stream)), kernel.c_str());
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(start_), static_cast<cudaEvent_t>(end_)),
        kernel.c_str());
  add(kernel, 1e-3 * static_cast<double>(milliseconds));
}

void check_launch(const char* kernel, const void* function, Stream stream) {
  const cudaError_t status = cudaGetLastError();
  REQUIRE(status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction,
          "build octet with this GPU's architecture in CMAKE_CUDA_ARCHITECTURES", "kernel ", kernel,
          " was not built for this GPU");
  check(status, kernel);
  if (stream.clock != nullptr) stream.clock->stop(name_of_kernel(kernel, function), stream);
}

}  // namespace octet::cuda
