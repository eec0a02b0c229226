// The operations of detection on the GPU: equal bits on the CPU.
#include <gtest/gtest.h>

#include "tests/cuda/compare.h"
#include "tests/kernels/regions.h"

namespace octet::test {
namespace {

Tensor report_in(Place& place) { return place.zeros({1, 1, 1, sizeof(LossReport) / 4}); }

TEST(CudaDetection, SigmoidLoss) {
  for (const auto& [anchors, classes] : {std::pair(3, 1), std::pair(9, 40), std::pair(2, 5)}) {
    const Shape shape{3, 5, 11, int64_t{anchors} * classes};
    const OwnedTensor logits = random_real(shape, 4, 9);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < shape.pixels() * anchors; ++i)
      labels.push_back(i % 3 == 0 ? -1 : i % 5 == 0 ? int32_t(i % classes) + 1 : 0);
    const float scale[] = {0.1f, 0.02f, 1};
    for (const SigmoidProblem& problem : {SigmoidProblem{anchors, classes}, SigmoidProblem{anchors, classes, 0.25f, 2},
                                          SigmoidProblem{anchors, classes, 0.3f, 1.3f}})
      for (const DType type : {DType::f32, DType::bf16})
        expect_same(say("sigmoid loss of ", classes, " classes"), [&](Place& place) {
          const Tensor x = place.copy(logits.view()), gradient = place.zeros(shape, type);
          const Tensor report = report_in(place), alone = report_in(place);
          const int32_t* const own = place.copy(labels.data(), labels.size());
          const float* const factors = place.copy(scale, 3);
          place.backend.sigmoid_loss({problem, x, own, factors, 1.0f / 3, gradient, report.as<LossReport>()});
          place.backend.sigmoid_loss({problem, x, own, factors, 1.0f / 3, {}, alone.as<LossReport>()});
          place.keep("gradient", gradient), place.keep("report", report), place.keep("evaluation", alone);
        });
  }
}

TEST(CudaDetection, BoxLoss) {
  struct Case {
    Shape shape;
    BoxLossProblem problem;
  };
  for (const auto& [shape, problem] :
       {Case{{3, 7, 11, 12}, {3, 1, 77, 1.0f / 9}}, Case{{700, 1, 1, 20}, {1, 5, 1, 0}}, Case{{700, 1, 1, 4}, {}}}) {
    const OwnedTensor predictions = random_real(shape, 5),
                      targets = random_real({shape.pixels(), 1, 1, 4L * problem.boxes}, 6);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < shape.pixels() * problem.boxes; ++i)
      labels.push_back(i % 4 == 0 ? -1 : i % 3 == 0 ? 0 : int32_t(i % 4) + 1);
    const OwnedTensor scale = random_real({1, 1, 1, shape.pixels()}, 7);
    for (const DType type : {DType::f32, DType::bf16})
      expect_same("box loss", [&, &problem = problem](Place& place) {
        const Tensor gradient = place.copy(random_real(predictions.view().shape, 8, 1, type).view());
        const Tensor report = report_in(place);
        place.backend.box_loss({problem, place.copy(predictions.view()), place.copy(targets.view()),
                                place.copy(labels.data(), labels.size()), place.copy(scale.view()).f32(), 0.125f,
                                gradient, report.as<LossReport>()});
        place.keep("gradient", gradient), place.keep("report", report);
      });
  }
}

TEST(CudaDetection, WeightedSoftmaxLoss) {
  const OwnedTensor logits = random_real({300, 1, 1, 13}, 4, 9), weights = random_real({1, 1, 1, 300}, 5);
  std::vector<int32_t> labels(300);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 5 == 4 ? -1 : static_cast<int32_t>(i % 13);
  expect_same("weighted softmax loss", [&](Place& place) {
    const Tensor gradient = place.zeros(logits.view().shape), report = report_in(place);
    place.backend.softmax_loss({place.copy(logits.view()), place.copy(labels.data(), labels.size()),
                                place.copy(weights.view()).f32(), 0, 1.0f / 64, gradient, report.as<LossReport>()});
    place.keep("gradient", gradient), place.keep("report", report);
  });
}

TEST(CudaDetection, RoiPools) {
  for (const RoiCase& one : roi_cases())
    for (const DType type : {DType::s8, DType::u8, DType::f32}) {
      const RoiProblem& problem = one.problem;
      const auto map = [&](size_t level, uint32_t seed) {
        return type == DType::u8   ? random_unsigned_codes(problem.levels[level], seed)
               : type == DType::s8 ? random_codes(problem.levels[level], seed, 7)
                                   : random_real_operand(problem.levels[level], seed);
      };
      const OwnedQTensor fine = map(0, 3), coarse = map(1, 17);
      const OwnedTensor dy = random_real(problem.y, 4, 1, type == DType::u8 ? DType::bf16 : DType::f32);
      expect_same(say(one.name, ", ", name_of(type)), [&](Place& place) {
        const QTensor levels[] = {place.copy(fine.view()), place.copy(coarse.view())};
        const QTensor y = place.zeros_for(Encoding{.dtype = type}, problem.y);
        const Tensor table = place.copy(one.table.view());
        const Into both[] = {{place.copy(random_real(problem.levels[0], 5, 1, DType::bf16).view()), type == DType::s8},
                             {place.copy(random_real(problem.levels[1], 6).view()), type == DType::u8}};
        place.backend.roi_pool_forward({problem, levels, table, y});
        place.backend.roi_pool_backward({problem, levels, table, place.copy(dy.view()), both});
        place.keep("y", y), place.keep("first level", both[0].tensor), place.keep("second level", both[1].tensor);
      });
    }
}

// The host's work runs in each repetition of a recorded program, in order between two operations of the device, with
// the step's own state.
TEST(CudaDetection, HostWorkRunsInTheOrderOfTheDevice) {
  const Shape shape{1, 1, 1, 50};
  const auto four_steps = [&](Place& place) {
    const Tensor x = place.zeros(shape), counter = place.zeros({1, 1, 1, 1}), y = place.zeros(shape),
                 z = place.zeros(shape);
    const Tensor gradient = place.copy(random_real(shape, 2).view());
    for (uint32_t step = 0; step < 4; ++step) {
      const OwnedTensor sent = random_real(shape, 10 + step);
      place.backend.to_device(x.data, sent.f32(), sent.view().bytes());
      const StepState state{step, 0.5f / static_cast<float>(1 + step), 7 * step};
      place.backend.run(3, state, [&] {
        place.backend.quantize({x, Encoding{}, {1, step, 3, state.first_sample * 50, 50}, QTensor{y}, {}});  // copies
        const Tensor reads[] = {y, counter}, writes[] = {z, counter};
        place.backend.on_host(reads, writes,
                              [](std::span<const Tensor> in, std::span<const Tensor> out, const StepState& now) {
                                for (int64_t i = 0; i < in[0].elements(); ++i)
                                  out[0].f32()[i] = in[0].f32()[i] * now.learning_rate + static_cast<float>(now.step) +
                                                    static_cast<float>(now.first_sample) + in[1].f32()[0];
                                out[1].f32()[0] = in[1].f32()[0] + 1;  // in place
                              });
        const Tensor more[] = {z}, doubled[] = {z};
        place.backend.on_host(more, doubled, [](auto in, auto out, const StepState&) {
          for (int64_t i = 0; i < in[0].elements(); ++i) out[0].f32()[i] = 2 * in[0].f32()[i];
        });
        const SgdStep update{{state.learning_rate, 0, 0}, z, gradient, y};
        place.backend.sgd_update({&update, 1});
      });
      std::vector<float> result(50);
      place.backend.to_host(result.data(), z.data, 200);
      const Tensor kept = place.zeros(shape);
      place.backend.to_device(kept.data, result.data(), 200);
      place.keep(say("step ", step), kept);
    }
    place.keep("counter", counter);
  };
  const auto recording = make_cuda_backend({});
  Place cuda(*recording), cpu(cpu_backend());
  four_steps(cuda);
  four_steps(cpu);
  EXPECT_EQ(cpu.kept().back().tensor.f32()[0], 4);
  for (size_t i = 0; i < cpu.kept().size(); ++i)
    expect_equal(cuda.backend, cuda.kept()[i].tensor, cpu.kept()[i].tensor, cpu.kept()[i].name);
  recording->forget_programs();
}

// Work that needs more pinned memory than before moves it, so that recorded programs are recorded again.
TEST(CudaDetection, HostWorkSurvivesGrowth) {
  const auto backend = make_cuda_backend({});
  Place place(*backend);
  const Tensor small = place.zeros({1, 1, 1, 8}), large = place.zeros({1, 1, 1, 9000});
  const auto add_one = [&](const Tensor& tensor) {
    const Tensor both[] = {tensor};
    backend->on_host(both, both, [](auto in, auto out, const StepState&) {
      for (int64_t i = 0; i < in[0].elements(); ++i) out[0].f32()[i] = in[0].f32()[i] + 1;
    });
  };
  for (int step = 0; step < 3; ++step) backend->run(1, {}, [&] { add_one(small); });
  for (int step = 0; step < 3; ++step) backend->run(2, {}, [&] { add_one(large); });
  for (int step = 0; step < 3; ++step) backend->run(1, {}, [&] { add_one(small); });
  add_one(small);  // outside of a program
  std::vector<float> result(9000);
  backend->to_host(result.data(), small.data, 32);
  EXPECT_EQ(std::vector<float>(result.begin(), result.begin() + 8), std::vector<float>(8, 7));
  backend->to_host(result.data(), large.data, 36000);
  EXPECT_EQ(result, std::vector<float>(9000, 3));
}

}  // namespace
}  // namespace octet::test
