#include "src/config/keys.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "kernels/backend.h"

namespace octet {
namespace {

// The path of a key and the place of its value in Config are the same words.
#define FIELD(path) #path, [](Config & config) -> Field { return &config.path; }
constexpr double kMany = 1e15;  // no limit but that of exact integers in a double

std::vector<std::string> isas() {
  std::vector<std::string> names = isa_names();
  names.insert(names.begin(), "");
  return names;
}

const std::vector<Key> kKeys = {
    {FIELD(seed), 0, kMany, {}, "of weights, sample order, augmentation and stochastic rounding"},

    {FIELD(model.name), 0, 0, {}, "the network, for example resnet20"},
    {FIELD(model.classes), 2, 1e6, {}, "outputs of the last layer"},
    {FIELD(model.dropout), 0, 0.99, {}, "share of values dropped before a linear layer (alexnet, inception_v3)"},
    {FIELD(model.auxiliary_weight), 0, 100, {}, "weight of the auxiliary loss (inception_v3 on large images)"},
    {FIELD(model.initial_weights), 0, 0, {}, "a safetensors file; empty: random"},

    {FIELD(policy.name), 0, 0, {}, "how values are quantized, for example unified_int8 or fp32"},
    {FIELD(policy.bits.weight), 2, 8, {}, "bits of a weight's code; fewer than 8: with a searched clip"},
    {FIELD(policy.bits.activation), 2, 8, {}, "bits of an activation's code"},
    {FIELD(policy.bits.gradient), 2, 8, {}, "bits of an error's code"},
    {FIELD(policy.quantize_first), 0, 0, {}, "quantize the first convolution too"},
    {FIELD(policy.quantize_last), 0, 0, {}, "quantize the last linear layer too"},
    {FIELD(policy.unsigned_activations),
     0,
     0,
     {},
     "unsigned codes where activations are never negative (unified_int8)"},
    {FIELD(policy.grad_weight), 0, 0, {"int8", "real"}, "the error that the weight gradient reads"},
    {FIELD(policy.clip.enabled), 0, 0, {}, "direction-sensitive gradient clipping"},
    {FIELD(policy.clip.period), 1, 1e9, {}, "steps between searches for the clipping values"},
    {FIELD(policy.clip.candidates), 2, 65536, {}, "clipping values tried in a search"},
    {FIELD(policy.clip.sample),
     0,
     1024,
     {},
     "of so many blocks of a large gradient one is searched; 0: 4 / policy.clip.period, rounded up"},
    {FIELD(policy.clip.record_histograms), 0, 0, {}, "write gradients' histograms every period (unified_int8)"},
    {FIELD(policy.lr_scale.enabled), 0, 0, {}, "learning rate scaled by max(exp(-alpha d_c), beta)"},
    {FIELD(policy.lr_scale.alpha), 0, 1e6, {}, "how fast the scale falls with the deviation d_c"},
    {FIELD(policy.lr_scale.beta), 0, 1, {}, "the scale's lower bound"},

    {FIELD(storage), 0, 0, {"f32", "bf16", "int8"}, "how convolution outputs are kept for backward; int8 saves memory"},

    {FIELD(data.name), 0, 0, {"cifar10", "image_folder", "packed", "shapes", "synthetic"}, "the data set"},
    {FIELD(data.root), 0, 0, {}, "its directory (cifar10, image_folder and packed)"},
    {FIELD(data.batch), 1, 1 << 24, {}, "images of one step, over all ranks"},
    {FIELD(data.workers), 1, 1024, {}, "decode threads of each rank"},
    {FIELD(data.image_size), 0, 4096, {}, "pixels of a side; 0: the data set's own"},
    {FIELD(data.bad_images), 0, 0, {"stop", "skip"}, "what an unreadable image does"},
    {FIELD(data.max_pixels), 1, 1e9, {}, "images with more pixels are refused"},
    {FIELD(data.samples), 0, 1e7, {}, "training images of synthetic and shapes; 0: the default"},
    {FIELD(data.augment), 0, 0, {}, "random crops and flips while training"},
    {FIELD(data.mean), 0, 1, {}, "of red, green and blue, of pixel / 255, subtracted; empty: the data set's own"},
    {FIELD(data.deviation),
     0.001,
     1,
     {},
     "of red, green and blue, of pixel / 255, divided by; empty: the data set's own"},

    {FIELD(train.epochs), 1, 1e6, {}, "passes over the training set"},
    {FIELD(train.steps), 0, kMany, {}, "stop after so many steps; 0: never early"},
    {FIELD(train.lr), 0, 1e6, {}, "learning rate after the warmup"},
    {FIELD(train.schedule), 0, 0, {"constant", "step", "multi_step", "cosine"}, "how the learning rate falls"},
    {FIELD(train.milestones), 1, 1e6, {}, "multi_step: epochs at which it falls"},
    {FIELD(train.step_epochs), 1, 1e6, {}, "step: epochs between falls"},
    {FIELD(train.gamma), 0, 1, {}, "step and multi_step: factor of a fall"},
    {FIELD(train.momentum), 0, 1, {}, "of SGD"},
    {FIELD(train.nesterov), 0, 0, {}, "Nesterov's momentum"},
    {FIELD(train.decay), 0, 1, {}, "weight decay"},
    {FIELD(train.decay_norm), 0, 0, {}, "decay norm parameters and biases too"},
    {FIELD(train.warmup_epochs), 0, 1e6, {}, "epochs of linear rise to train.lr"},
    {FIELD(train.label_smoothing), 0, 1, {}, "share of the target spread over all classes"},
    {FIELD(train.on_nonfinite), 0, 0, {"stop", "skip"}, "what a step with a NaN or infinite gradient does"},
    {FIELD(train.eval_every_epochs), 1, 1e6, {}, "epochs between evaluations"},
    {FIELD(train.log_every_steps), 1, 1e9, {}, "steps between records of metrics"},

    {FIELD(backend.device), 0, 0, {"cpu", "cuda"}, "where kernels run"},
    {FIELD(backend.isa),
     0,
     0,
     isas(),
     "instruction set; empty: the best here"},
    {FIELD(backend.threads), 0, 4096, {}, "of each rank; 0: the cores it may use"},
    {FIELD(backend.check_kernels), 0, 0, {}, "cuda: wait after every kernel, so that an error names it"},
    {FIELD(backend.graph), 0, 0, {}, "cuda: record a step's kernels once and repeat them as one graph"},

    {FIELD(comm.exchange), 0, 0, {"fp32", "int8"}, "how gradients travel between ranks"},
    {FIELD(comm.transport),
     0,
     0,
     {"auto", "nccl", "mpi"},
     "cuda: gradients from GPU to GPU, or through the host; auto: nccl where it is"},
    {FIELD(comm.overlap), 0, 0, {}, "exchange while backward runs; false: after it, to see what overlap hides"},
    {FIELD(comm.bucket_mb), 0.001, 4096, {}, "MiB of gradients exchanged at once"},
    {FIELD(comm.timeout_seconds), 0, 1e6, {}, "longest step before a rank gives up; 0: never"},

    {FIELD(checkpoint.every_steps), 0, kMany, {}, "steps between checkpoints; 0: one at the end of each epoch"},
    {FIELD(checkpoint.keep), 1, 1e6, {}, "newest checkpoints kept"},
};
#undef FIELD

template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;  // clang 14 does not deduce aggregates

template <class Number>
bool parse_number(const std::string& text, const Key& key, Number& number) {
  Number parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  const double value = static_cast<double>(parsed);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= key.low && value <= key.high))
    return false;
  number = parsed;
  return true;
}

bool one_line(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

template <class Number>
std::string number_text(Number number) {  // the shortest text that reads back to the same value
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

template <class Number>
std::string list_text(const std::vector<Number>& list) {
  std::string text;
  for (const Number item : list) text += (text.empty() ? "" : ", ") + number_text(item);
  return "[" + text + "]";
}

std::string quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (plain && text != "null") return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += (c == '"' || c == '\\') ? std::string{'\\', c} : std::string{c};
  return quoted + "\"";
}

std::string value_text(const Field& field) {
  return std::visit(Overload{[](const bool* value) { return std::string(*value ? "true" : "false"); },
                             [](const int64_t* value) { return number_text(*value); },
                             [](const double* value) { return number_text(*value); },
                             [](const std::string* value) { return quoted(*value); },
                             [](const std::vector<int64_t>* value) { return list_text(*value); },
                             [](const std::vector<double>* value) { return list_text(*value); }},
                    field);
}

Field default_of(const Key& key) {
  static Config defaults;  // never written
  return key.field(defaults);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

const std::vector<Key>& keys() { return kKeys; }

const Key* find_key(std::string_view path) {
  for (const Key& key : kKeys)
    if (key.path == path) return &key;
  return nullptr;
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
    // The right word in the wrong section is nearer than a letter or two of the section suggest.
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
    if (word != last) words += (last.empty() ? " " : ", ") + word;  // keys of a section stand together
    last = word;
  }
  return words;
}

bool takes_list(const Key& key) {
  const Field field = default_of(key);
  return std::holds_alternative<std::vector<int64_t>*>(field) || std::holds_alternative<std::vector<double>*>(field);
}

std::string domain_of(const Key& key) {
  const auto range = [&](const std::string& kind, auto low, auto high) {
    return kind + (key.high == kMany ? " >= " + number_text(low) : " " + number_text(low) + " .. " + number_text(high));
  };
  const auto low = static_cast<int64_t>(key.low), high = static_cast<int64_t>(key.high);
  return std::visit(
      Overload{[](bool*) { return std::string("true | false"); }, [&](int64_t*) { return range("integer", low, high); },
               [&](double*) { return range("number", key.low, key.high); },
               [&](std::vector<int64_t>*) { return range("list of integers", low, high); },
               [&](std::vector<double>*) { return range("list of numbers", key.low, key.high); },
               [&](std::string*) {
                 std::string text;
                 for (const std::string& value : key.allowed)
                   text += (text.empty() ? "" : " | ") + (value.empty() ? "\"\"" : value);
                 return text.empty() ? "text of one line" : text;
               }},
      default_of(key));
}

bool assign(const Key& key, Config& config, const std::vector<std::string>& texts) {
  const auto assign_list = [&](auto& list) {
    std::remove_reference_t<decltype(list)> items(texts.size());
    for (size_t i = 0; i < texts.size(); ++i)
      if (!parse_number(texts[i], key, items[i])) return false;
    list = std::move(items);
    return true;
  };
  if (!takes_list(key) && texts.size() != 1) return false;
  const std::string& text = texts.empty() ? std::string() : texts[0];
  return std::visit(Overload{[&](bool* value) {
                               *value = text == "true" ? true : text == "false" ? false : *value;
                               return text == "true" || text == "false";
                             },
                             [&](int64_t* value) { return parse_number(text, key, *value); },
                             [&](double* value) { return parse_number(text, key, *value); },
                             [&](std::string* value) {
                               const auto& allowed = key.allowed;
                               const bool known =
                                   allowed.empty() ? one_line(text)
                                                   : std::find(allowed.begin(), allowed.end(), text) != allowed.end();
                               if (known) *value = text;
                               return known;
                             },
                             [&](std::vector<int64_t>* list) { return assign_list(*list); },
                             [&](std::vector<double>* list) { return assign_list(*list); }},
                    key.field(config));
}

std::optional<Difference> first_difference(const Config& before, const Config& now,
                                           const std::function<bool(std::string_view path)>& matters) {
  Config first = before, second = now;  // fields are reached through mutable pointers
  for (const Key& key : kKeys) {
    const std::string old_text = value_text(key.field(first)), new_text = value_text(key.field(second));
    if (old_text != new_text && matters(key.path))
      return Difference{key.path + ": " + old_text, key.path + ": " + new_text};
  }
  return {};
}

std::string to_yaml(const Config& config) {
  Config copy = config;  // fields are reached through mutable pointers
  std::string text, section;
  for (const Key& key : kKeys) {
    const size_t dot = key.path.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : key.path.substr(0, dot);
    if (parent != section) {
      for (size_t at = 0; at < parent.size();) {  // open the sections that the key before was not in
        const size_t end = std::min(parent.find('.', at), parent.size());
        const std::string opened = parent.substr(0, end);
        const auto depth = static_cast<size_t>(std::count(opened.begin(), opened.end(), '.'));
        if (opened != section && !section.starts_with(opened + "."))
          text += std::string(2 * depth, ' ') + parent.substr(at, end - at) + ":\n";
        at = end + 1;
      }
      section = parent;
    }
    const auto depth = static_cast<size_t>(std::count(key.path.begin(), key.path.end(), '.'));
    text += std::string(2 * depth, ' ') + std::string(last_word(key.path)) + ": " + value_text(key.field(copy)) + "\n";
  }
  return text;
}

std::string describe_keys() {
  size_t path_width = 0, default_width = 0, domain_width = 0;
  for (const Key& key : kKeys) {
    path_width = std::max(path_width, key.path.size());
    default_width = std::max(default_width, value_text(default_of(key)).size());
    domain_width = std::max(domain_width, domain_of(key).size());
  }
  const auto padded = [](std::string text, size_t width) { return text.append(width + 2 - text.size(), ' '); };
  std::string text;
  for (const Key& key : kKeys)
    text += padded(key.path, path_width) + padded(value_text(default_of(key)), default_width) +
            padded(domain_of(key), domain_width) + key.meaning + "\n";
  return text;
}

}  // namespace octet
