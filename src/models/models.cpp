#include "src/models/models.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "src/models/detectors.h"

namespace octet {

// To add a network, write its file, declare its function here, and add a row below.
// form: the index of the form in its row.
using Build = std::vector<Head>(Graph&, Edge images, const Config::Model&, size_t form);
Build resnet20, resnet, mobilenet_v2, alexnet, inception_v3, vgg7, efficientnet_lite0;

namespace {

// From -1 to 1. torchvision's InceptionV3 turns pixels that are normalized as photographs into these
// (`transform_input`); timm gives the numbers themselves.
constexpr Normalization from_minus_1_to_1 = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
// (pixel - 127) / 128, as the authors of EfficientNet-Lite compute it.
constexpr Normalization of_efficientnet_lite = {{127.0f / 255, 127.0f / 255, 127.0f / 255},
                                                {128.0f / 255, 128.0f / 255, 128.0f / 255}};

// A form of a network, by the sides of the images that have it, in pixels. Both ends are included.
struct Form {
  int64_t least, most;
};
constexpr int64_t any = std::numeric_limits<int64_t>::max();

struct Row {
  const char* name;
  Build* build;
  const Normalization* published = nullptr;  // see published_normalization()
  std::vector<Form> forms = {{1, any}};      // the smallest images first
};
const Row rows[] = {{"resnet20", resnet20},
                    {"resnet18", resnet, &of_photographs},
                    {"resnet34", resnet, &of_photographs},
                    {"resnet50", resnet, &of_photographs},
                    {"resnet101", resnet, &of_photographs},
                    {"mobilenet_v2", mobilenet_v2, &of_photographs, {{1, 32}, {33, any}}},
                    {"alexnet", alexnet, &of_photographs, {{29, 64}, {223, 226}}},
                    {"alexnet_bn", alexnet, nullptr, {{29, 64}, {223, 226}}},
                    {"inception_v3", inception_v3, &from_minus_1_to_1, {{1, 32}, {33, 64}, {65, any}}},
                    {"vgg7", vgg7},
                    {"efficientnet_lite0", efficientnet_lite0, &of_efficientnet_lite, {{1, 32}, {33, any}}}};

const Row* row_of(const std::string& network) {
  const Row* const row = std::ranges::find(rows, network, &Row::name);
  return row == std::end(rows) ? nullptr : row;
}

std::optional<size_t> form_of(const Row& row, int64_t side) {
  for (size_t form = 0; form < row.forms.size(); ++form)
    if (row.forms[form].least <= side && side <= row.forms[form].most) return form;
  return {};
}

// "29 .. 64 or 223 .. 226"
std::string sides_of(const Row& row) {
  std::vector<std::string> ranges;
  for (const Form& form : row.forms) ranges.push_back(say(form.least, " .. ", form.most));
  return joined(ranges, " or ");
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  std::ranges::copy(detector_names(), std::back_inserter(names));
  return names;
}

const Normalization* published_normalization(const Config::Model& model) {
  const Row* const row = row_of(is_detector(model.name) ? model.backbone : model.name);
  return row == nullptr ? nullptr : row->published;
}

std::optional<size_t> form_of(const std::string& network, int64_t side) {
  const Row* const row = row_of(network);
  return row == nullptr ? 0 : form_of(*row, side);
}

std::vector<Head> make_model(Graph& graph, Edge images, const Config::Model& model) {
  const Row* const row = row_of(model.name);
  REQUIRE_USAGE(row != nullptr, "use one of: " + joined(model_names(), ", "), "model.name `", model.name,
                "` is not known");
  REQUIRE_USAGE(model.classes > 1, "set model.classes to the number of classes", "model.classes is ", model.classes,
                ", but ", model.name, " tells two classes or more apart");
  const int64_t side = side_of_images(graph);
  const std::optional<size_t> form = form_of(*row, side);
  REQUIRE_USAGE(form, say("set data.image_size to ", sides_of(*row)), model.name, " takes no images of ", side,
                " pixels");
  return row->build(graph, images, model, *form);
}

}  // namespace octet
