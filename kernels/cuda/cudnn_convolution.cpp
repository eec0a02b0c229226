// Real-valued convolutions by cuDNN.
#include <iostream>
#include <map>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/cudnn_plan.h"
#include "kernels/cuda/plan_cache.h"

namespace octet::cuda {
namespace {

// A constant, so that the choice of an engine, and with it the bits of a training, does not depend on free memory.
constexpr size_t most_workspace = size_t{1} << 30;

class CudnnConvolution final : public LibraryConvolution {
 public:
  CudnnConvolution(const CudnnLibrary& library, int index, const Device& device, Stream stream)
      : library_(library),
        stream_(stream),
        device_(describe_device(library, index)),
        cache_(PlanCache::default_folder(), say(library.name(), ", ", device.name, ", ", device.processors,
                                                " processors, workspace ", most_workspace)) {
    library.check(library.create(&handle_), "starting cuDNN");
    library.check(library.set_stream(handle_, static_cast<cudaStream_t>(stream.handle)), "choosing cuDNN's stream");
  }
  ~CudnnConvolution() override { library_.destroy(handle_); }
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;

  std::string name() const override { return library_.name(); }
  size_t scratch_bytes() const override { return workspace_.bytes(); }
  bool takes(ConvPass pass, const ConvProblem& p, bool add) override { return plan(pass, p, add).has_value(); }

  void run(ConvPass pass, const ConvProblem& p, bool add, float* x, float* w, float* y) override {
    const std::optional<CudnnPlan>& chosen = plan(pass, p, add);
    REQUIRE(chosen, "ask takes() first", "cuDNN has no plan for ", describe(pass, p, add));
    begin_launch(stream_);
    chosen->run(handle_, x, w, y, workspace_.get<char>(static_cast<int64_t>(chosen->workspace_bytes())));
    if (stream_.clock != nullptr) check_launch(describe(pass, p, add).c_str(), nullptr, stream_);
  }

 private:
  const std::optional<CudnnPlan>& plan(ConvPass pass, const ConvProblem& p, bool add) {
    const std::string problem = describe(pass, p, add);
    const auto known = plans_.find(problem);
    if (known != plans_.end()) return known->second;
    const std::optional<CudnnPlan>& made = plans_.emplace(problem, kept_or_built(pass, p, add)).first->second;
    if (stream_.clock != nullptr)
      std::clog << problem << ": "
                << (made ? say(library_.name(), ", engine ", made->engine(), ", workspace ",
                               made->workspace_bytes() >> 20, " MiB")
                         : std::string("fixed-order kernels"))
                << '\n';
    return made;
  }
  std::optional<CudnnPlan> kept_or_built(ConvPass pass, const ConvProblem& p, bool add) const {
    const std::string problem = describe(pass, p, add);
    if (const std::optional<std::string> json = cache_.find(problem))
      if (std::optional<CudnnPlan> kept = CudnnPlan::load(device_, *json)) return kept;
    std::optional<CudnnPlan> built = CudnnPlan::build(device_, pass, p, add, most_workspace);
    if (built) cache_.keep(problem, built->json());
    return built;
  }

  const CudnnLibrary& library_;
  Stream stream_;
  CudnnDescriptor device_;
  PlanCache cache_;
  cudnnHandle_t handle_ = nullptr;
  std::map<std::string, std::optional<CudnnPlan>> plans_;  // by describe(); nothing: no engine takes it
  DeviceScratch workspace_;
};

}  // namespace

std::unique_ptr<LibraryConvolution> make_cudnn_convolution(int index, const Device& device, Stream stream,
                                                           std::string& missing) {
  const CudnnLibrary* const library = load_cudnn(missing);
  if (library == nullptr) return nullptr;
  return std::make_unique<CudnnConvolution>(*library, index, device, stream);
}

}  // namespace octet::cuda
