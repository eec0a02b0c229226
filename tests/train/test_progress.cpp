#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/run/result.h"
#include "src/tasks/metric_display.h"
#include "src/train/progress.h"
#include "src/version.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

StepStatus status_of(int64_t step) {
  return {.epoch = 3,
          .epochs = 30,
          .step = step,
          .steps = 390,
          .steps_left = 1000 - step,
          .images = 128,
          .figures = {"loss 1.234", "top-1 56.7 %"},
          .data_share = 0.003};
}

TEST(Progress, PlainLinesEveryInterval) {
  std::ostringstream out;
  Progress progress(out, /*live=*/false, 80, /*bold=*/false, 100);
  for (int64_t step = 1; step <= 390; ++step) progress.step(status_of(step), 0.16 * static_cast<double>(step));
  EXPECT_EQ(out.str(),
            "epoch 3/30  step 100/390  loss 1.234  top-1 56.7 %  800 img/s  data 0.3 %  ETA 2:24\n"
            "epoch 3/30  step 200/390  loss 1.234  top-1 56.7 %  800 img/s  data 0.3 %  ETA 2:08\n"
            "epoch 3/30  step 300/390  loss 1.234  top-1 56.7 %  800 img/s  data 0.3 %  ETA 1:52\n");
}

TEST(Progress, EtaCountsWhatIsBetweenSteps) {
  std::ostringstream out;
  Progress progress(out, /*live=*/false, 80, /*bold=*/false, 100);
  for (int64_t step = 1; step <= 100; ++step) {
    StepStatus status = status_of(step);
    status.other_seconds_left = 60;
    progress.step(status, 0.16 * static_cast<double>(step));
  }
  EXPECT_NE(out.str().find("ETA 3:24\n"), std::string::npos) << out.str();
}

TEST(Progress, LiveLineIsRewrittenAndFits) {
  std::ostringstream out;
  {
    Progress progress(out, /*live=*/true, 200, /*bold=*/false, 100);
    progress.step(status_of(209), 0);
    EXPECT_EQ(out.str(), "\r\033[Kepoch 3/30  [=====>    ]  209/390  loss 1.234  top-1 56.7 %  data 0.3 %");
    out.str("");
    progress.step(status_of(210), 0.16);
    EXPECT_EQ(out.str(),
              "\r\033[Kepoch 3/30  [=====>    ]  210/390  loss 1.234  top-1 56.7 %  800 img/s  data 0.3 %  ETA 2:06");
    out.str("");
  }
  EXPECT_EQ(out.str(), "\n");  // a line left standing is ended

  // On a narrow terminal whole parts are left out, and nothing is cut.
  const auto second_line = [](int width) {
    std::ostringstream narrow;
    Progress progress(narrow, /*live=*/true, width, /*bold=*/false, 100);
    progress.step(status_of(209), 0);
    narrow.str("");
    progress.step(status_of(210), 0.16);
    std::string line = narrow.str();
    progress.epoch({});
    return line;
  };
  EXPECT_EQ(second_line(19), "\r\033[Kepoch 3/30  [==> ]");
  EXPECT_EQ(second_line(20), "\r\033[Kepoch 3/30  210/390");
  EXPECT_EQ(second_line(40), "\r\033[Kepoch 3/30  [==> ]  210/390  loss 1.234");
  EXPECT_EQ(second_line(50), "\r\033[Kepoch 3/30  [==> ]  210/390  loss 1.234  ETA 2:06");
  EXPECT_EQ(second_line(80), "\r\033[Kepoch 3/30  [====>    ]  210/390  loss 1.234  top-1 56.7 %  800 img/s  ETA 2:06");
}

TEST(Progress, LiveLineDoesNotFlood) {
  std::ostringstream out;
  Progress progress(out, /*live=*/true, 80, /*bold=*/false, 1);
  for (int64_t step = 1; step <= 1000; ++step) progress.step(status_of(step), 0.001 * static_cast<double>(step));
  const std::string text = out.str();
  const auto draws = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(draws, 9);
  EXPECT_LE(draws, 11);
  progress.epoch({});
}

TEST(MetricDisplay, ShowsTheMainMetricsOrAll) {
  const Scalars figures = {{"loss", 1.2344}, {"top1", 0.567}, {"top5", 0.9}};
  EXPECT_EQ(show(figures, 1, false, "  "), "loss 1.234  top-1 56.7 %");
  EXPECT_EQ(show(figures, 2, true, " "), "loss 1.2344 top-1 56.70 % top-5 90.00 %");
}

TEST(Progress, EpochLineStays) {
  const auto lines = [](int width, bool best) {
    std::ostringstream out;
    Progress progress(out, /*live=*/true, width, /*bold=*/false, 100);
    progress.step(status_of(390), 0);
    out.str("");
    progress.epoch({.epoch = 3,
                    .epochs = 30,
                    .train = "loss 1.234 top-1 56.7 %",
                    .test = "loss 1.100 top-1 60.0 %",
                    .best = best,
                    .images_per_second = 812,
                    .seconds = 48});
    return out.str();
  };
  EXPECT_EQ(lines(100, false),
            "\r\033[Kepoch 3/30: train loss 1.234 top-1 56.7 % | test loss 1.100 top-1 60.0 % | 812 img/s | 0:48\n");
  EXPECT_EQ(lines(80, true),
            "\r\033[Kepoch 3/30: train loss 1.234 top-1 56.7 % | test loss 1.100 top-1 60.0 %\n"
            "  best so far | 812 img/s | 0:48\n");
  EXPECT_EQ(lines(40, false),
            "\r\033[Kepoch 3/30:\n"
            "  train loss 1.234 top-1 56.7 %\n"
            "  test loss 1.100 top-1 60.0 %\n"
            "  812 img/s | 0:48\n");
  std::ostringstream bold;
  Progress(bold, /*live=*/false, 80, /*bold=*/true, 100).epoch({.epoch = 1, .epochs = 2, .train = "loss 0.000"});
  EXPECT_EQ(bold.str(), "\033[1mepoch 1/2: train loss 0.000 | not tested | 0 img/s | 0:00\033[0m\n");
}

TEST(Progress, AnEpochsEndDoesNotCountAsAStep) {
  std::ostringstream out;
  Progress progress(out, /*live=*/false, 80, /*bold=*/false, 1);
  progress.step(status_of(389), 1.0);
  progress.step(status_of(390), 1.16);
  progress.epoch({});
  out.str("");
  progress.step(status_of(1), 100.0);
  progress.step(status_of(2), 100.16);
  EXPECT_PART(out.str(), "step 2/390  loss 1.234  top-1 56.7 %  800 img/s");
}

TEST(Progress, ClockText) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(75.9), "1:15");
  EXPECT_EQ(clock_text(3700), "1:01:40");
  EXPECT_EQ(clock_text(-5), "0:00");
  EXPECT_EQ(clock_text(std::numeric_limits<double>::quiet_NaN()), "0:00");
}

TEST(Result, IsWrittenAsAWhole) {
  TemporaryDirectory directory;
  Result result;
  result.metrics = {{"top1", 0.9125}, {"top5", 0.995}, {"loss", 0.31}};
  result.best = {{.epoch = 28, .step = 10920, .figures = {{"top1", 0.9175}, {"loss", NAN}}}};
  result.steps = 11700;
  result.isa = "avx512_vnni";
  result.images_per_second = 812.5;
  result.wall_seconds = 70;
  result.wire_bytes_per_step = 0;
  result.arena_bytes = uint64_t{1} << 40;
  result.commit = commit;
  write_result(directory.path(), result);
  const auto json = nlohmann::json::parse(read_file(directory / "result.json"));
  EXPECT_EQ(json.size(), 22u);
  EXPECT_EQ(json["top1"], 0.9125);
  EXPECT_EQ(json["steps"], 11700);
  EXPECT_EQ(json["isa"], "avx512_vnni");
  EXPECT_EQ(json["arena_bytes"], uint64_t{1} << 40);
  EXPECT_FALSE(json["commit"].get<std::string>().empty());
  EXPECT_FALSE(std::filesystem::exists(directory / "result.json.tmp"));

  const std::optional<Result> read = read_result(directory.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->steps, 11700);
  EXPECT_EQ(read->arena_bytes, uint64_t{1} << 40);
  EXPECT_EQ(read->isa, "avx512_vnni");
  EXPECT_EQ(read->images_per_second, 812.5);
  EXPECT_EQ(read->wire_bytes_per_step, 0u);
  ASSERT_EQ(read->metrics.size(), 3u);
  EXPECT_EQ(read->metrics[0].name, "top1");
  EXPECT_EQ(read->metrics[0].value, 0.9125);
  ASSERT_TRUE(read->best);
  EXPECT_EQ(read->best->epoch, 28);
  EXPECT_EQ(read->best->step, 10920);
  ASSERT_EQ(read->best->figures.size(), 2u);
  EXPECT_EQ(read->best->figures[0].value, 0.9175);
  EXPECT_TRUE(std::isnan(read->best->figures[1].value));
  result.images_per_second.reset();  // not known is not zero
  write_result(directory.path(), result);
  EXPECT_FALSE(nlohmann::json::parse(read_file(directory / "result.json")).contains("images_per_second"));
  EXPECT_FALSE(read_result(directory.path())->images_per_second);
  std::filesystem::remove(directory / "result.json");
  EXPECT_FALSE(read_result(directory.path()));
  for (const auto& [text, part] : {std::pair{"{\n\"steps\": \"many\"}", "result.json:2: octet did not write `steps`"},
                                   {"{\"top1\":\n[]}", "result.json:1: octet did not write `top1`"},
                                   {"{\n\n\"best\": {\"epoch\": 3}}", "result.json:3: octet did not write `best`"},
                                   {"", "result.json:1: octet did not write this file"},
                                   {"[]", "result.json:1: "},
                                   {"{\"steps\": 117", "result.json:1: "}}) {
    write_file(directory / "result.json", text);
    EXPECT_PART(refusal([&] { read_result(directory.path()); }), part);
  }
}

}  // namespace
}  // namespace octet
