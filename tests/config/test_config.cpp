#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/config/keys.h"

namespace octet {
namespace {

Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "run.yaml", overrides);
}

// The message of the UsageError that the text and overrides cause.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
}

TEST(Config, EmptyFileGivesDefaults) {
  EXPECT_EQ(to_yaml(parse("")), to_yaml(Config{}));
  EXPECT_EQ(to_yaml(parse("# nothing but a comment\n")), to_yaml(Config{}));
  EXPECT_EQ(parse("").file, "run.yaml");
}

TEST(Config, EveryDefaultIsInItsDomain) {
  EXPECT_NO_THROW(parse(to_yaml(Config{})));
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.meaning.empty()) << key.path;
    EXPECT_FALSE(domain_of(key).empty()) << key.path;
  }
}

TEST(Config, ReadsEveryType) {
  const Config config = parse(R"(
seed: 7
model: {name: resnet18, classes: 1000}
policy:
  bits:
    gradient: 6
  clip: {enabled: false}
data: {root: "a \"quoted\" \\ path # not a comment", batch: 64}
train:
  lr: 1e-3
  schedule: multi_step
  milestones: [3, 5]
)");
  EXPECT_EQ(config.seed, 7);
  EXPECT_EQ(config.model.name, "resnet18");
  EXPECT_EQ(config.model.classes, 1000);
  EXPECT_EQ(config.policy.bits.gradient, 6);
  EXPECT_EQ(config.policy.bits.weight, 8);
  EXPECT_FALSE(config.policy.clip.enabled);
  EXPECT_EQ(config.data.root, "a \"quoted\" \\ path # not a comment");
  EXPECT_EQ(config.train.lr, 1e-3);
  EXPECT_EQ(config.train.milestones, (std::vector<int64_t>{3, 5}));
}

TEST(Config, RoundTrip) {
  const Config config = parse("seed: 3\ndata: {root: 'C:\\x # \" é', name: cifar10}\nbackend: {isa: avx2}",
                              {"train.lr=0.1234567890123456", "train.milestones=1,20,300", "policy.lr_scale.beta=0.3",
                               "data.mean=0.485,0.456,0.1"});
  const std::string yaml = to_yaml(config);
  const Config again = parse(yaml);
  EXPECT_EQ(to_yaml(again), yaml);
  EXPECT_EQ(again.train.lr, 0.1234567890123456);
  EXPECT_EQ(again.data.root, config.data.root);
  EXPECT_EQ(again.train.milestones, config.train.milestones);
  EXPECT_EQ(again.data.mean, (std::vector{0.485, 0.456, 0.1}));
  EXPECT_EQ(again.backend.isa, "avx2");
}

TEST(Config, ToYamlNestsEachSectionOnce) {
  const std::string yaml = to_yaml(Config{});
  expect_part(yaml,
              "policy:\n  name: unified_int8\n  bits:\n    weight: 8\n    activation: 8\n    gradient: 8\n"
              "  quantize_first: false\n");
  for (const std::string section : {"\npolicy:\n", "\n  bits:\n", "\ntrain:\n"})
    EXPECT_EQ(yaml.find(section), yaml.rfind(section)) << section;
}

TEST(Config, OverridesApplyInOrder) {
  const Config config =
      parse("train: {lr: 0.5}", {"train.lr=0.25", "train.lr=0.125", "data.root=a=b", "train.milestones=[]"});
  EXPECT_EQ(config.train.lr, 0.125);
  EXPECT_EQ(config.data.root, "a=b");
  EXPECT_TRUE(config.train.milestones.empty());
}

TEST(Config, UnknownKeyNamesTheNearest) {
  expect_part(refusal("train:\n  epoch: 3\n"), "run.yaml:2:3: unknown key `train.epoch`; nearest: `train.epochs`");
  expect_part(refusal("seed: 1\ntrian: {lr: 1}\n"), "run.yaml:2:1: unknown key `trian`; nearest: `train`");
  expect_part(refusal("polcy: {}"), "nearest: `policy`");
  expect_part(refusal("lr: 1"), "run.yaml:1:1: unknown key `lr`; nearest: `train.lr`");
  expect_part(refusal("", {"train.lerning_rate=1"}), "--set train.lerning_rate=1: unknown key `train.lerning_rate`");
  expect_part(refusal("", {"batch=1"}), "--set batch=1: unknown key `batch`; nearest: `data.batch`");
  expect_part(refusal("policy:\n  bits:\n    weights: 8"),
              "run.yaml:3:5: unknown key `policy.bits.weights`; nearest: `policy.bits.weight`");
  expect_part(refusal("\"\": 1"), "unknown key ``");
  expect_part(refusal("train: {lrate: 1}"), "unknown key `train.lrate`; nearest: `train.lr`");
  expect_part(refusal("train: {learning_rate: 1}"),
              "unknown key `train.learning_rate`; `train` has epochs, minutes, steps, lr, ");
  expect_part(refusal("policy: {clip: {every: 1}}"), "`policy.clip` has enabled, period, candidates, ");
  expect_part(refusal("policy: {size: 1}"), "`policy` has name, bits, quantize_first, ");
  expect_part(refusal("output: 1"), "unknown key `output`; there are seed, model, rpn, roi, detect, policy, ");
}

TEST(Config, WrongTypeRangeAndValueWithPosition) {
  expect_part(refusal("train:\n  epochs: many"),
              "run.yaml:2:11: `train.epochs` takes integer 1 .. 1000000, not `many`");
  expect_part(refusal("train:\n  epochs: 1.5"), "run.yaml:2:11: `train.epochs` takes integer");
  expect_part(refusal("train: {epochs: 0}"), "run.yaml:1:17: `train.epochs` takes integer 1 ..");
  expect_part(refusal("train: {epochs: }"), "`train.epochs` takes integer");
  expect_part(refusal("train: {epochs: 99999999999999999999}"), "`train.epochs` takes integer");
  expect_part(refusal("train: {lr: .nan}"), "`train.lr` takes number");
  expect_part(refusal("train: {lr: nan}"), "`train.lr` takes number");
  expect_part(refusal("train: {lr: inf}"), "`train.lr` takes number");
  expect_part(refusal("train: {nesterov: yes}"), "`train.nesterov` takes true | false, not `yes`");
  expect_part(refusal("policy: {bits: {weight: 9}}"),
              "run.yaml:1:25: `policy.bits.weight` takes integer 2 .. 8, not `9`");
  expect_part(refusal("data: {batch: -1}"), "`data.batch` takes integer 1 ..");
  expect_part(refusal("storage: f16"), "run.yaml:1:10: `storage` takes f32 | bf16 | int8, not `f16`");
  expect_part(refusal("train: {milestones: [1, x]}"), "run.yaml:1:21: `train.milestones` takes list of integers");
  expect_part(refusal("data: {root: \"a\\nb\"}"), "`data.root` takes text of one line");
  expect_part(refusal("", {"train.lr=fast"}), "--set train.lr=fast: `train.lr` takes number 0 .. 1e+06, not `fast`");
  expect_part(refusal("data: {deviation: [1, 1, 0]}"), "`data.deviation` takes list of numbers 0.001 .. 1");
  expect_part(refusal("", {"train.milestones=1,,2"}), "--set train.milestones=1,,2: `train.milestones` takes list");
  expect_part(refusal("", {"train.lr"}), "--set train.lr: no `=`");
  expect_part(refusal("", {"train=1"}), "--set train=1: `train` is a section");
}

TEST(Config, WrongStructureWithPosition) {
  expect_part(refusal("train: 3"), "run.yaml:1:8: `train` is a section, not a value");
  expect_part(refusal("seed: {a: 1}"), "run.yaml:1:7: a mapping where a value is expected");
  expect_part(refusal("seed: [1]"), "run.yaml:1:7: a list where a value is expected");
  expect_part(refusal("train: [1]"), "run.yaml:1:8: `train` is a section, not a value");
  expect_part(refusal("[1, 2]"), "run.yaml:1:1: a list where a key is expected");
  expect_part(refusal("just text"), "run.yaml:1:1: `just text` is not a mapping");
  expect_part(refusal("[1]: 2"), "a list where a key is expected");
  expect_part(refusal("{a: 1}: 2"), "run.yaml:1:");
  expect_part(refusal("train: {milestones: [[1]]}"), "a list where a value is expected");
  expect_part(refusal("train: {milestones: [{a: 1}]}"), "a mapping where a value is expected");
  expect_part(refusal("seed: 1\nmodel: {classes: 3\n"), "run.yaml:3:1: ");  // unclosed
  expect_part(refusal("seed: 1\n---\nseed: 2\n"), "a second YAML document");
  expect_part(refusal(",-"), "text that belongs to no key");  // yaml-cpp finds documents in it without end
}

TEST(Config, DuplicatesAreRefused) {
  expect_part(refusal("seed: 1\nseed: 2"), "run.yaml:2:1: `seed` was given before, at run.yaml:1:1");
  expect_part(refusal("train: {lr: 1}\ntrain: {epochs: 2}"), "run.yaml:2:1: `train` was given before");
  expect_part(refusal("train: {lr: 1, lr: 1}"), "run.yaml:1:16: `lr` was given before, at run.yaml:1:9");
  expect_part(refusal("train: {lr: 1}\ntrain.lr: 2"), "run.yaml:2:1: `train.lr` was given before, at run.yaml:1:9");
  expect_part(refusal("policy.clip.enabled: true\npolicy: {clip: {enabled: true}}"),
              "run.yaml:2:17: `policy.clip.enabled` was given before, at run.yaml:1:1");
}

TEST(Config, TagsAreRefused) {
  expect_part(refusal("seed: !!int 1"), "run.yaml:1:");
  expect_part(refusal("data: {root: !include x}"), "YAML tag `!include` is not read");
}

TEST(Config, AliasesRepeatAValue) {
  EXPECT_EQ(parse("seed: &a 7\nmodel: {classes: *a}").model.classes, 7);
  EXPECT_EQ(parse("model: {name: &name resnet18}\ndata: {root: *name}").data.root, "resnet18");
  // Each level has the one below it twice: nothing walks through all of them.
  std::string bomb = "a0: &a0 {seed: 1}\n";
  for (int i = 1; i < 60; ++i) {
    const std::string n = std::to_string(i), below = "*a" + std::to_string(i - 1);
    bomb += "a" + n + ": &a" + n + " {x: " + below + ", y: " + below + "}\n";
  }
  expect_part(refusal(bomb), "run.yaml:17:15: aliases stand for more than 1 MiB");
}

TEST(Config, BombsAreRefusedBeforeTheyGrow) {
  const auto repeated = [](const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  expect_part(refusal(repeated("[", 500'000)), "run.yaml:1:");
  expect_part(refusal(repeated("{", 500'000)), "run.yaml:1:");
  expect_part(refusal(repeated("{a: ", 200'000)), "run.yaml:1:");
  expect_part(refusal("train: {milestones: " + repeated("[", 500'000)), "run.yaml:1:");
  expect_part(refusal(repeated("- ", 500'000)), "run.yaml:1:");
  expect_part(refusal(repeated("? ", 500'000)), "run.yaml:1:");
  expect_part(refusal(repeated("? - ", 200'000)), "run.yaml:1:");
  expect_part(refusal(repeated("x", 1000) + ": 1"), "xxx...`; there are seed, model,");
  expect_part(refusal(repeated("#", (1 << 20) + 1)), "larger than 1 MiB");
  EXPECT_EQ(refusal(repeated("#", 1 << 20)), "accepted");
}

TEST(Config, OnlyUtf8Text) {
  expect_part(refusal("seed: 1\nd\x04"), "run.yaml:2:2: not UTF-8 text");
  expect_part(refusal("seed: 1 # \xFF"), "run.yaml:1:11: not UTF-8 text");
  expect_part(refusal("# \xC0\x80"), "run.yaml:1:3: not UTF-8 text");
  expect_part(refusal("# \xED\xA0\x80"), "not UTF-8 text");
  expect_part(refusal("# \xE2\x82"), "not UTF-8 text");
  expect_part(refusal(std::string("seed: 1\0", 8)), "not UTF-8 text");
  expect_part(refusal("", {"data.root=\xFF"}), "not UTF-8 text");
  EXPECT_EQ(refusal("# caf\u00e9 \u20ac \U0001F600"), "accepted");
}

TEST(Config, KeysThatContradictEachOther) {
  expect_part(refusal("train: {schedule: multi_step}"), "multi_step needs `train.milestones`");
  expect_part(refusal("train: {milestones: [5, 5]}"), "run.yaml:1:9: `train.milestones`: epochs do not rise");
  expect_part(refusal("data: {mean: [0.5]}"), "run.yaml:1:8: `data.mean`: length 1");
  expect_part(refusal("train: {epochs: 2, warmup_epochs: 3}"), "is more than `train.epochs` 2");
  expect_part(refusal("train: {nesterov: true, momentum: 0}"), "needs `train.momentum`");
  expect_part(refusal("train: {optimizer: adamw, nesterov: true}"), "is for SGD");
  expect_part(refusal("train: {optimizer: adamw, momentum: 1}"), "divides by 1 - `train.momentum`");
  expect_part(refusal("train: {beta2: 0.99}"), "sgd reads neither");
}

TEST(Config, DescribesEveryKeyOnALine) {
  const std::string text = describe_keys();
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), keys().size());
  expect_part(text, "policy.bits.weight");
  expect_part(text, "true | false");
  expect_part(text, "integer 2 .. 8");
}

TEST(Config, DescribesOneKeyOrASection) {
  const std::string key = describe_key("train.schedule");
  expect_part(key, "train.schedule: ");
  expect_part(key, "\n  default: ");
  expect_part(key, "\n  values: constant | ");
  EXPECT_EQ(std::ranges::count(key, '\n'), 3);
  expect_part(describe_key("policy.bits"), "policy.bits.gradient: ");
  EXPECT_EQ(describe_key("train."), describe_key("train"));
  EXPECT_EQ(describe_key("lr."), "") << "a section alone";
  EXPECT_EQ(describe_key("lr_scale"), describe_key("policy.lr_scale"));
  EXPECT_EQ(describe_key("weight"), describe_key("policy.bits.weight"));
  expect_part(describe_key("policy.name", {{"policy.name", {"one", "two"}}}), "values: one, two\n");
  for (const char* const unknown : {"", "trai", "trai.", "train.schedul", "train.schedule.", "."})
    EXPECT_EQ(describe_key(unknown), "");
}

TEST(Config, ShippedConfigurationsAreValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(OCTET_SOURCE_DIR "/configs")) {
    if (entry.is_directory()) continue;  // studies: tests/report reads them
    const Config config = load_config(entry.path(), {});
    EXPECT_EQ(to_yaml(parse(to_yaml(config))), to_yaml(config)) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(Config, LoadsFilesAndRefusesWhatIsNone) {
  const std::string directory = ::testing::TempDir() + "octet_config_" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  const auto message = [](const std::string& file) -> std::string {
    try {
      load_config(file, {});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  expect_part(message(directory + "/none.yaml"), "none.yaml' does not exist");
  expect_part(message(directory), "cannot be read as YAML: it is a folder");
  for (const auto& [name, kind] : {std::pair{"a.safetensors", "a file of weights"}, {"a.JPEG", "an image"}}) {
    std::ofstream(directory + "/" + name) << "x";
    expect_part(message(directory + "/" + name), std::string("it is ") + kind);
  }
  std::ofstream(directory + "/study.yaml") << "base: run.yaml\ngrid: {}\n";
  expect_part(message(directory + "/study.yaml"), "octet study");
  std::ofstream(directory + "/run.yaml") << "train:\n  epochs: 3\n";
  std::ofstream(directory + "/config.yaml") << "{}";
  expect_part(message(directory), "it is the directory of a run");
  const Config config = load_config(directory + "/run.yaml", {"seed=5"});
  EXPECT_EQ(config.train.epochs, 3);
  EXPECT_EQ(config.seed, 5);
  std::ofstream(directory + "/large.yaml") << std::string((1 << 20) + 100, '#');
  expect_part(message(directory + "/large.yaml"), "larger than 1 MiB");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace octet
