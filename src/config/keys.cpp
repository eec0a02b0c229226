#include "src/config/keys.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "kernels/base/text.h"
#include "src/config/spelling.h"

namespace octet {
namespace {

// The path of a key and the place of its value in Config are the same words.
#define FIELD(path) #path, [](Config & config) -> Field { return &config.path; }
constexpr double kMany = 1e15;  // no limit, except that of exact integers in a double

// A key that takes one of some words.
Key choice(const char* path, Field (*field)(Config&), const char* meaning, std::vector<std::string> allowed) {
  return {.path = path, .field = field, .meaning = meaning, .allowed = std::move(allowed)};
}

const std::vector<Key> kKeys = {
    {FIELD(seed), "seed of weights, sample order, augmentation and stochastic rounding", 0, kMany},

    {FIELD(model.name), "network"},
    {FIELD(model.classes), "number of classes; 0: as the data has (coco, voc, yolo)", 0, 1e6},
    {FIELD(model.dropout), "share of values dropped before a linear layer (alexnet, inception_v3, efficientnet_lite0)",
     0, 0.99},
    {FIELD(model.auxiliary_weight), "weight of the auxiliary loss (inception_v3 on large images)", 0, 100},
    {FIELD(model.initial_weights), "safetensors file of initial weights; empty: random weights"},
    choice(FIELD(model.head),
           "keep: the classes of model.initial_weights; new: random weights where outputs belong to classes",
           {"keep", "new"}),

    {FIELD(model.backbone), "detectors: the network that gives the features"},
    {FIELD(model.initial_backbone), "detectors: safetensors file of the backbone as a trained classification network"},
    {FIELD(model.neck_channels), "detectors: channels of the feature pyramid and the heads", 1, 65536},
    {FIELD(model.head_depth), "retinanet: convolutions before the predictors", 0, 64},
    {FIELD(model.head_channels), "faster_rcnn: channels of the linear layers of regions; rfcn: before its maps", 1,
     65536},
    {FIELD(model.finest_stride), "retinanet: stride of the finest level; 4 for small objects", 4, 8},
    {FIELD(model.anchor_sizes), "detectors: size of each level's anchors in pixels; empty: the network's own", 1,
     65536},
    {FIELD(model.anchor_ratios), "detectors: height / width of the anchors", 0.01, 100},
    choice(
        FIELD(model.norm),
        "detectors: norms of the backbone; frozen: they keep the statistics, factors and biases of the loaded weights",
        {"batch", "frozen"}),
    {FIELD(model.freeze_stages), "detectors: first stages of the backbone that never train; 1: the stem, 5: all", 0, 5},
    {FIELD(model.norm_epsilon), "detectors: added to the variance in the backbone's norms; -1: as published", -1, 1},

    {FIELD(rpn.before_nms), "training: best answers of a level that may become proposals; 0: the network's own", 0,
     1e6},
    {FIELD(rpn.before_nms_test), "the same in evaluation", 0, 1e6},
    {FIELD(rpn.after_nms), "training: proposals of an image; 0: the network's own", 0, 65536},
    {FIELD(rpn.after_nms_test), "the same in evaluation", 0, 65536},
    {FIELD(rpn.nms), "largest overlap of two proposals of a level", 0, 1},
    {FIELD(rpn.positive), "least overlap with an object of an anchor that finds it", 0, 1},
    {FIELD(rpn.negative), "anchors that overlap no object so much are background", 0, 1},
    {FIELD(rpn.samples), "anchors of an image that train", 1, 1e6},
    {FIELD(rpn.fraction), "of these, at most, find an object", 0, 1},

    {FIELD(roi.positive), "least overlap with an object of a region that finds it", 0, 1},
    {FIELD(roi.negative), "regions that overlap no object so much are background", 0, 1},
    {FIELD(roi.samples), "regions of an image that train; 0: the network's own", 0, 65536},
    {FIELD(roi.fraction), "of these, at most, find an object", 0, 1},
    {FIELD(roi.hard), "of these, those with the largest losses train; 0: all", 0, 65536},

    {FIELD(detect.score), "least score of a detection", 0, 1},
    {FIELD(detect.nms), "largest overlap of two detections of a class", 0, 1},
    {FIELD(detect.detections), "most detections of an image", 1, 1e6},

    {FIELD(policy.name), "how values are quantized"},
    {FIELD(policy.bits.weight), "bits of a weight's code; fewer than 8: with a searched clip", 2, 8},
    {FIELD(policy.bits.activation), "bits of an activation's code", 2, 8},
    {FIELD(policy.bits.gradient), "bits of a gradient's code", 2, 8},
    {FIELD(policy.quantize_first), "quantize the first convolution too"},
    {FIELD(policy.quantize_last), "quantize the last linear layer too"},
    {FIELD(policy.unsigned_activations), "unsigned codes where activations are never negative (unified_int8)"},
    choice(FIELD(policy.activation_range),
           "held: from step to step; batch: the largest value of the rank's batch (unified_int8)", {"held", "batch"}),
    {FIELD(policy.clip.enabled), "direction-sensitive gradient clipping"},
    {FIELD(policy.clip.period), "steps between searches for the clipping values", 1, 1e9},
    {FIELD(policy.clip.candidates), "number of clipping values tried in a search", 2, 65536},
    {FIELD(policy.clip.sample), "search one of every N blocks of a large gradient; 0: 4 / period, rounded up", 0, 1024},
    {FIELD(policy.clip.forced_sample),
     "searches that saturation forces count one of every N blocks of a large gradient; 0: as policy.clip.sample", 0,
     1024},
    {FIELD(policy.clip.record_histograms), "write histograms of the gradients every period (unified_int8)"},
    {FIELD(policy.lr_scale.enabled), "learning rate scaled by max(exp(-alpha d_c), beta)"},
    {FIELD(policy.lr_scale.alpha), "how fast the scale falls with the deviation d_c", 0, 1e6},
    {FIELD(policy.lr_scale.beta), "lower bound of the scale", 0, 1},

    choice(FIELD(storage), "how convolution outputs are kept for the backward pass", {"f32", "bf16", "int8"}),

    {FIELD(data.name), "data source"},
    {FIELD(data.root), "directory of the data (cifar10, coco, image_folder, packed, voc, yolo)"},
    {.path = "data.batch",
     .field = [](Config& config) -> Field { return &config.data.batch; },
     .meaning = "images of one step, over all ranks; auto: the largest power of two that fits into memory",
     .low = 1,
     .high = 1 << 24,
     .may_be_automatic = true},
    {FIELD(data.workers), "threads of each rank that decode images", 1, 1024},
    {FIELD(data.image_size), "height and width of the images in pixels; 0: the size of the data source", 0, 4096},
    choice(FIELD(data.bad_images), "what to do at an image that cannot be read", {"stop", "skip"}),
    {FIELD(data.max_pixels), "images with more pixels are refused", 1, 1e9},
    {FIELD(data.samples), "training images of synthetic and drawn data; 0: the default", 0, 1e7},
    {FIELD(data.augment), "random crops, sizes and flips while training"},
    {FIELD(data.balanced), "training reads every class equally often, whatever its number of images"},
    {FIELD(data.holdout),
     "share of the images (image_folder: of each class) kept for evaluation; 0: a set of their own holds these", 0,
     0.9},
    {FIELD(data.canvas_heights), "detection: heights of the network's inputs, multiples of 32", 32, 65536},
    {FIELD(data.canvas_widths), "detection: the widths that belong to them; an image uses the first that holds it", 32,
     65536},
    {FIELD(data.short_side), "detection: shorter side of a resized image in pixels; 0: as in the file", 0, 65536},
    {FIELD(data.long_side), "detection: most pixels of its longer side; 0: no limit", 0, 65536},
    {FIELD(data.short_sides), "detection: training draws one of these in place of data.short_side", 1, 65536},
    {FIELD(data.flip), "detection: share of the images that training mirrors", 0, 1},
    {FIELD(data.mean), "red, green, blue of pixel / 255, subtracted; empty: the data source's", 0, 1},
    {FIELD(data.deviation), "red, green, blue of pixel / 255, divided by; empty: the data source's", 0.001, 1},
    {FIELD(data.annotations), "coco: training file below data.root; empty: annotations/instances_train2017.json"},
    {FIELD(data.annotations_test), "coco: test file below data.root; empty: annotations/instances_val2017.json"},
    {FIELD(data.images), "coco: folder of training images below data.root; empty: train2017"},
    {FIELD(data.images_test), "coco: folder of test images below data.root; empty: val2017"},
    {FIELD(data.sets), "voc: training sets, for example 2007/trainval, 2012/trainval; empty: those that exist"},
    {FIELD(data.sets_test), "voc: test sets, for example 2007/test; empty: those that exist"},
    choice(FIELD(data.difficult), "voc: what training does with difficult objects", {"skip", "train"}),
    choice(FIELD(data.turn_upright), "whether boxes mean the picture turned as EXIF says; auto: by annotated sizes",
           {"auto", "true", "false"}),
    choice(FIELD(data.bad_boxes), "what to do at a box without a pixel of its image", {"stop", "drop"}),
    choice(FIELD(data.empty_images), "what training does with images without objects", {"keep", "skip"}),

    {FIELD(augment.randaugment), "RandAugment: random operations on each training image; 0: none", 0, 16},
    {FIELD(augment.magnitude), "RandAugment: how strong its operations are, of 30", 0, 30},
    {FIELD(augment.color_jitter), "largest random change of brightness, contrast, saturation, hue; empty: none", 0, 1},
    {FIELD(augment.erasing), "share of the training images of which a random rectangle is erased", 0, 1},
    {FIELD(augment.mixup), "training images are mixed in pairs; alpha of their shares; 0: none", 0, 2},
    {FIELD(augment.cutmix), "CutMix: training images get a rectangle of another one; alpha of their shares; 0: none", 0,
     2},
    {FIELD(augment.mosaic), "detection: share of the training images that become mosaics of four images", 0, 1},
    {FIELD(augment.mosaic_until), "detection: share of train.epochs after which no image becomes a mosaic", 0, 1},

    {FIELD(train.epochs), "passes over the training set", 1, 1e6},
    {FIELD(train.minutes), "in place of train.epochs: as many as training and evaluations finish in so long; 0: none",
     0, 1e6},
    {FIELD(train.steps), "stop after this number of steps; 0: after train.epochs", 0, kMany},
    {FIELD(train.lr), "learning rate after the warmup", 0, 1e6},
    {FIELD(train.head_lr), "learning rate of the layers whose outputs are classes; 0: train.lr", 0, 1e6},
    choice(FIELD(train.schedule), "how the learning rate falls", {"constant", "step", "multi_step", "cosine"}),
    {FIELD(train.milestones), "multi_step: epochs at which it falls", 1, 1e6},
    {FIELD(train.step_epochs), "step: epochs between falls", 1, 1e6},
    {FIELD(train.gamma), "step and multi_step: factor of a fall", 0, 1},
    choice(FIELD(train.optimizer), "how gradients change weights", {"sgd", "adamw"}),
    {FIELD(train.momentum), "momentum of SGD; of AdamW: beta1, the decay of the mean of gradients", 0, 1},
    {FIELD(train.nesterov), "Nesterov's momentum, of SGD"},
    {FIELD(train.beta2), "AdamW: decay of the mean of squared gradients", 0, 1},
    {FIELD(train.epsilon), "AdamW: added to the root of this mean", 0, 1},
    {FIELD(train.decay), "weight decay; AdamW takes this share of the learning rate from each weight", 0, 1},
    {FIELD(train.decay_norm), "decay norm parameters and biases too"},
    {FIELD(train.norm_group), "images that share a norm's mean and variance; 0: all that a rank computes at once", 0,
     1 << 24},
    {FIELD(train.accumulate), "compute a rank's batch in so many parts, with the memory of one", 1, 1 << 24},
    {FIELD(train.memory_mb),
     "megabytes that a rank may take, with the program: storage, parts and frozen stages follow; 0: no limit", 0, 1e9},
    {FIELD(train.freeze),
     "classifiers: never train the layers up to this stage, for example layer3; their norms keep their statistics"},
    {FIELD(train.patience), "stop after this number of evaluations without a better one; 0: never", 0, 1e6},
    {FIELD(train.warmup_epochs), "epochs of linear rise to train.lr", 0, 1e6},
    {FIELD(train.ema), "decay of a moving average of the weights, which is evaluated and kept; 0: no average", 0,
     0.999999},
    {FIELD(train.label_smoothing), "share of the target spread over all classes", 0, 1},
    choice(FIELD(train.on_nonfinite), "what to do at a NaN or infinite loss or gradient", {"stop", "skip"}),
    {FIELD(train.eval_every_epochs), "epochs between evaluations", 1, 1e6},
    {FIELD(train.log_every_steps), "steps between records of metrics", 1, 1e9},
    {FIELD(train.prometheus), "file that always holds the latest figures in Prometheus' text format; empty: none"},

    choice(FIELD(backend.device), "device that runs the kernels", {"cpu", "cuda"}),
    {FIELD(backend.isa), "instruction set; empty: the best of this processor"},
    {FIELD(backend.threads), "threads of each rank; 0: one for each core it may use", 0, 4096},
    {FIELD(backend.check_kernels), "cuda: wait after every kernel, so that an error names it"},
    {FIELD(backend.share_gpu), "cuda: ranks of one machine may share a GPU, for tests; gradients go over MPI"},
    {FIELD(backend.graph), "cuda: record the kernels of a step once and repeat them as one graph"},

    choice(FIELD(comm.exchange), "how gradients are sent between ranks", {"fp32", "int8", "exact"}),
    choice(FIELD(comm.transport), "cuda: GPU to GPU, or through the host; auto: nccl if installed",
           {"auto", "nccl", "mpi"}),
    {FIELD(comm.overlap), "exchange gradients while backward runs; false: after it, to measure the gain"},
    {FIELD(comm.bucket_mb), "MiB of gradients exchanged at once", 0.001, 4096},
    {FIELD(comm.timeout_seconds),
     "time without progress after which a job ends and names the rank at fault; 0: no limit", 0, 1e6},

    {FIELD(checkpoint.every_steps), "steps between checkpoints; 0: one at the end of each epoch", 0, kMany},
    {FIELD(checkpoint.every_minutes), "also a checkpoint when the last one is so many minutes old; 0: none", 0, 1e6},
    {FIELD(checkpoint.keep), "number of newest checkpoints kept", 1, 1e6},
    {FIELD(checkpoint.best), "keep the weights of the best evaluation, as best.safetensors"},
};
#undef FIELD

template <class T>
constexpr bool is_list = false;
template <class Number>
constexpr bool is_list<std::vector<Number>> = true;

// Values as text of YAML, and back. parse() returns false, and writes nothing, outside the key's domain.
std::string text_of(bool value) { return value ? "true" : "false"; }
template <class Number>
std::string text_of(Number number) {  // the shortest text that reads back to the same value
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}
std::string text_of(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (plain && text != "null") return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += (c == '"' || c == '\\') ? std::string{'\\', c} : std::string{c};
  return quoted + "\"";
}
template <class Number>
std::string text_of(const std::vector<Number>& list) {
  std::vector<std::string> items;
  for (const Number item : list) items.push_back(text_of(item));
  return "[" + joined(items, ", ") + "]";
}

bool parse(const std::string& text, const Key&, bool& value) {
  value = text == "true" ? true : text == "false" ? false : value;
  return text == "true" || text == "false";
}
template <class Number>
bool parse(const std::string& text, const Key& key, Number& number) {
  if (key.may_be_automatic && text == "auto") return number = automatic, true;
  Number parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  const double value = static_cast<double>(parsed);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= key.low && value <= key.high))
    return false;
  number = parsed;
  return true;
}
bool parse(const std::string& text, const Key& key, std::string& value) {
  const bool one_line = std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  const bool known = key.allowed.empty() ? one_line : std::ranges::find(key.allowed, text) != key.allowed.end();
  if (known) value = text;
  return known;
}

std::string value_text(const Key& key, const Field& field) {
  const auto* const number = std::get_if<int64_t*>(&field);
  if (key.may_be_automatic && **number == automatic) return "auto";
  return std::visit([](const auto* value) { return text_of(*value); }, field);
}

Field default_of(const Key& key) {
  static Config defaults;  // never written
  return key.field(defaults);
}

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

const std::vector<Key>& keys() { return kKeys; }

const Key* find_key(std::string_view path) {
  const auto found = std::ranges::find(kKeys, path, &Key::path);
  return found == kKeys.end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
  const std::string prefix = std::string(path) + ".";
  return std::any_of(kKeys.begin(), kKeys.end(), [&](const Key& key) { return key.path.starts_with(prefix); });
}

std::string hint_for(std::string_view path) {
  path = path.substr(0, 64);
  std::string nearest;
  size_t least = SIZE_MAX;
  const auto consider = [&](std::string_view known) {
    // The right word in the wrong section counts as one edit.
    const size_t distance = std::min(edit_distance(path, known), 1 + edit_distance(last_word(path), last_word(known)));
    if (distance < least) {
      least = distance;
      nearest = known;
    }
  };
  for (const Key& key : kKeys) {
    consider(key.path);
    for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1))
      consider(std::string_view(key.path).substr(0, dot));
  }
  const bool misspelt = least <= std::max<size_t>(1, last_word(path).size() / 2);
  const bool lengthened = last_word(path).starts_with(last_word(nearest));  // `lrate` for `lr`
  if (misspelt || lengthened) return "nearest: `" + nearest + "`";
  const std::string_view section = path.substr(0, path.rfind('.'));
  const std::string prefix = is_section(section) ? std::string(section) + "." : "";
  std::string words = prefix.empty() ? "there are" : "`" + std::string(section) + "` has", last;
  for (const Key& key : kKeys) {
    if (!key.path.starts_with(prefix)) continue;
    std::string word = key.path.substr(prefix.size());
    word.resize(std::min(word.size(), word.find('.')));
    if (word != last) words += (last.empty() ? " " : ", ") + word;  // the keys of a section are adjacent
    last = word;
  }
  return words;
}

std::string default_text(const Key& key) { return value_text(key, default_of(key)); }

bool takes_list(const Key& key) {
  return std::visit([]<class T>(T*) { return is_list<T>; }, default_of(key));
}

std::string domain_of(const Key& key) {
  const auto range = [&](const std::string& kind, auto low, auto high) {
    return kind + (key.high == kMany ? " >= " + text_of(low) : " " + text_of(low) + " .. " + text_of(high)) +
           (key.may_be_automatic ? ", or auto" : "");
  };
  return std::visit(
      [&]<class T>(T*) -> std::string {
        if constexpr (std::is_same_v<T, bool>) return "true | false";
        if constexpr (std::is_same_v<T, std::string>)
          return key.allowed.empty() ? "text of one line" : joined(key.allowed, " | ");
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::vector<int64_t>>)
          return range(is_list<T> ? "list of integers" : "integer", int64_t(key.low), int64_t(key.high));
        return range(is_list<T> ? "list of numbers" : "number", key.low, key.high);
      },
      default_of(key));
}

bool assign(const Key& key, Config& config, const std::vector<std::string>& texts) {
  return std::visit(
      [&]<class T>(T* value) {
        if constexpr (is_list<T>) {
          T items(texts.size());
          for (size_t i = 0; i < texts.size(); ++i)
            if (!parse(texts[i], key, items[i])) return false;
          *value = std::move(items);
          return true;
        } else {
          return texts.size() == 1 && parse(texts[0], key, *value);
        }
      },
      key.field(config));
}

std::optional<Difference> first_difference(const Config& before, const Config& now,
                                           const std::function<bool(std::string_view path)>& matters) {
  Config first = before, second = now;  // fields are reached through mutable pointers
  for (const Key& key : kKeys) {
    const std::string old_text = value_text(key, key.field(first)), new_text = value_text(key, key.field(second));
    if (old_text != new_text && matters(key.path))
      return Difference{key.path + ": " + old_text, key.path + ": " + new_text};
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> told_apart_by(const Config& config) {
  constexpr std::array always = {"model.name", "policy.name", "data.name", "data.batch", "train.lr", "seed"};
  Config copy = config;  // fields are reached through mutable pointers
  std::vector<std::pair<std::string, std::string>> told;
  for (const Key& key : kKeys) {
    std::string value = value_text(key, key.field(copy));
    const bool listed = std::ranges::count(always, key.path) > 0;
    if (listed || value != value_text(key, default_of(key))) told.emplace_back(key.path, std::move(value));
  }
  return told;
}

std::vector<std::pair<std::string, std::vector<std::string>>> differences(std::vector<Config> configs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (const Key& key : kKeys) {
    std::vector<std::string> values;
    for (Config& config : configs) values.push_back(value_text(key, key.field(config)));
    if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) != values.end())
      found.emplace_back(key.path, std::move(values));
  }
  return found;
}

std::string to_yaml(const Config& config) {
  Config copy = config;  // fields are reached through mutable pointers
  std::string text, before;
  for (const Key& key : kKeys) {
    std::string indent;
    size_t at = 0;
    for (size_t dot; (dot = key.path.find('.', at)) != std::string::npos; at = dot + 1, indent += "  ")
      if (!before.starts_with(key.path.substr(0, dot + 1)))  // the key before was not in this section
        text += indent + key.path.substr(at, dot - at) + ":\n";
    text += indent + key.path.substr(at) + ": " + value_text(key, key.field(copy)) + "\n";
    before = key.path;
  }
  return text;
}

std::string describe_key(const std::string& topic, const std::map<std::string, std::vector<std::string>>& names) {
  const auto describes = [&](const Key& key) {
    if (topic.ends_with('.')) return key.path.starts_with(topic);
    return ("." + key.path + ".").find("." + topic + ".") != std::string::npos;
  };
  std::string text;
  for (const Key& key : kKeys) {
    if (topic.empty() || !describes(key)) continue;
    const auto named = names.find(key.path);
    text += say(text.empty() ? "" : "\n", key.path, ": ", key.meaning, "\n  default: ", default_text(key),
                "\n  values: ", named == names.end() ? domain_of(key) : joined(named->second, ", "), "\n");
  }
  return text;
}

std::string describe_keys(const std::map<std::string, std::vector<std::string>>& names, size_t columns) {
  std::vector<std::array<std::string, 3>> rows;
  std::array<size_t, 3> widths{};
  for (const Key& key : kKeys) {
    rows.push_back({key.path, default_text(key), names.contains(key.path) ? "name, see below" : domain_of(key)});
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], rows.back()[i].size() + 2);
  }
  std::string text;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (columns > 0 && widths[0] + widths[1] + widths[2] + 30 > columns) {  // no room for meanings in the same line
      text += say(rows[row][0], ": ", kKeys[row].meaning, "\n  default ", rows[row][1], "; ", rows[row][2], "\n");
      continue;
    }
    for (size_t i = 0; i < widths.size(); ++i) text += rows[row][i].append(widths[i] - rows[row][i].size(), ' ');
    text += kKeys[row].meaning + "\n";
  }
  for (const auto& [path, allowed] : names) text += "\nNames for " + path + ": " + joined(allowed, ", ");
  return text + (names.empty() ? "" : "\n");
}

}  // namespace octet
