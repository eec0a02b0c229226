#include "src/report/check/data_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "kernels/base/error.h"
#include "src/data/annotations/annotations.h"
#include "src/data/images/box_frame.h"
#include "src/data/sources/source.h"
#include "src/report/check/check_parts.h"
#include "src/tasks/task.h"

namespace octet {
namespace {

// Images whose annotations were perhaps made for other pixels than the file stores.
struct Frames {
  std::vector<std::string> other_size, turned;
  BoxFrames of_set;  // with data.turn_upright: auto
  std::string fix;   // of the first of another size
};

// Both splits, with the sizes of the image files where these can be read.
struct Data {
  std::array<Annotations, 2> splits;
  std::array<std::vector<std::string>, 2> paths;  // of the images
  std::array<std::vector<ImageFacts>, 2> facts;
  std::array<Frames, 2> frames;
};

// Finds the view in which boxes are read, and gives images its size.
void take_frames(const std::vector<ImageFacts>& facts, const std::string& turn_upright, Annotations& split,
                 Frames& frames) {
  const auto annotated = [&](size_t i) { return ImageSize{split.images[i].height, split.images[i].width}; };
  if (turn_upright == "auto")
    for (size_t i = 0; i < facts.size(); ++i)
      if (facts[i].header.format != nullptr) frames.of_set.add(split.images[i].path, annotated(i), facts[i].header);
  const View others = frames.of_set.agreed().value_or(View::stored);
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i].fault.empty()) continue;
    AnnotatedImage& image = split.images[i];
    View view = View::stored;
    try {
      view = view_of_boxes(annotated(i), facts[i].header, turn_upright).value_or(others);
      if (view == View::upright && facts[i].header.orientation != 1) frames.turned.push_back(image.path);
    } catch (const BadImage& bad) {
      frames.other_size.push_back(image.path + ": " + bad.what());
      if (frames.fix.empty()) frames.fix = bad.fix;
    }
    const ImageSize size = size_of(facts[i].header, view);
    image.width = static_cast<int32_t>(size.width);
    image.height = static_cast<int32_t>(size.height);
  }
}

Data read_data(const Config& config) {
  Data data;
  for (const Split split : {Split::train, Split::test}) {
    const auto s = static_cast<size_t>(split);
    data.splits[s] = read_all_annotations(config, split);
    for (const AnnotatedImage& image : data.splits[s].images) data.paths[s].push_back(image.path);
    data.facts[s] = examine_images(data.paths[s], config.data);
    take_frames(data.facts[s], config.data.turn_upright, data.splits[s], data.frames[s]);
  }
  return data;
}

// The number of objects of both splits for which `counts` is true.
template <class Counts>
std::array<int64_t, 2> objects_that(const Data& data, Counts counts) {
  std::array<int64_t, 2> number{};
  for (size_t s = 0; s < 2; ++s)
    for (const AnnotatedImage& image : data.splits[s].images)
      number[s] += std::ranges::count_if(image.objects, [&](const Object& object) { return counts(image, object); });
  return number;
}
template <class Counts>
std::string objects_row(const std::string& name, const Data& data, Counts counts) {
  const auto [train, test] = objects_that(data, counts);
  return check_row(name, train, test);
}

std::string overview(const Data& data) {
  const auto empty = [](const AnnotatedImage& image) { return image.objects.empty(); };
  const auto& [train, test] = data.splits;
  return fmt::format("{:<32}{:>10}{:>10}\n", "", split_names[0], split_names[1]) +
         check_row("images", int64_t(train.images.size()), int64_t(test.images.size())) +
         check_row("images without objects", std::ranges::count_if(train.images, empty),
                   std::ranges::count_if(test.images, empty)) +
         objects_row("objects", data, [](auto&, auto&) { return true; }) +
         objects_row("  crowds (never train)", data, [](auto&, const Object& object) { return object.crowd; }) +
         objects_row("  difficult (data.difficult)", data,
                     [](auto&, const Object& object) { return object.difficult; });
}

// By name, since the splits may disagree.
std::string classes(const Data& data) {
  std::map<std::string, std::array<int64_t, 2>> objects;
  std::vector<std::string> order;
  for (size_t s = 0; s < 2; ++s) {
    const Annotations& split = data.splits[s];
    for (const std::string& name : split.classes)
      if (objects.try_emplace(name).second) order.push_back(name);
    for (const AnnotatedImage& image : split.images)
      for (const Object& object : image.objects) ++objects[split.classes[object.label]][s];
  }
  std::string text = "\nobjects by class\n";
  std::array<std::vector<std::string>, 2> absent;
  for (const std::string& name : order) {
    const auto& number = objects[name];
    text += check_row("  " + name, number[0], number[1]);
    for (size_t s = 0; s < 2; ++s)
      if (number[s] == 0) absent[s].push_back(name);
  }
  for (size_t s = 0; s < 2; ++s)
    if (!absent[s].empty())
      text += fmt::format("classes without objects in {}: {}: {}\n", split_names[s], absent[s].size(),
                          joined(absent[s], ", "));
  return text;
}

std::string image_sizes(const Data& data) {
  std::map<std::pair<int32_t, int32_t>, std::array<int64_t, 2>> numbers;
  for (size_t s = 0; s < 2; ++s)
    for (const AnnotatedImage& image : data.splits[s].images) ++numbers[{image.width, image.height}][s];
  std::vector<std::pair<std::pair<int32_t, int32_t>, std::array<int64_t, 2>>> sizes(numbers.begin(), numbers.end());
  std::ranges::stable_sort(sizes, std::greater<>(), [](const auto& size) { return size.second[0] + size.second[1]; });
  constexpr size_t most = 8;
  std::string text = "\nimage sizes, width x height\n";
  std::array<int64_t, 2> others{};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto& [size, number] = sizes[i];
    if (i < most)
      text += check_row(size.first == 0 ? "  not known" : fmt::format("  {}x{}", size.first, size.second), number[0],
                        number[1]);
    else
      for (size_t s = 0; s < 2; ++s) others[s] += number[s];
  }
  if (sizes.size() > most)
    text += check_row(fmt::format("  {} other sizes", sizes.size() - most), others[0], others[1]);
  return text;
}

double side_of(const BoxInFile& box) { return std::sqrt(std::max(box.width, 0.0) * std::max(box.height, 0.0)); }

std::string box_sizes(const Data& data) {
  std::string text = "\nboxes by size, the square root of width * height in pixels of the file\n";
  constexpr struct {
    const char* name;
    double least, end;
  } sizes[] = {{"  below 8", 0, 8},        {"  8 to 16", 8, 16},          {"  16 to 32", 16, 32},
               {"  32 to 64", 32, 64},     {"  64 to 128", 64, 128},      {"  128 to 256", 128, 256},
               {"  256 to 512", 256, 512}, {"  512 and more", 512, 1e300}};
  for (const auto& [name, least, end] : sizes)
    text += objects_row(name, data, [least = least, end = end](auto&, const Object& object) {
      const double side = side_of(object.box);
      return side >= least && side < end;
    });
  std::vector<double> sides;
  for (const AnnotatedImage& image : data.splits[0].images)
    for (const Object& object : image.objects)
      if (fault_of(object.box, image.width, image.height) == BoxFault::none) sides.push_back(side_of(object.box));
  if (sides.empty()) return text;
  std::ranges::sort(sides);
  const auto quantile = [&](double share) { return sides[static_cast<size_t>(share * double(sides.size() - 1))]; };
  return text + fmt::format("in training 5 % are below {:.0f}, half below {:.0f}, 95 % below {:.0f}\n", quantile(0.05),
                            quantile(0.5), quantile(0.95));
}

std::string place_of(const Annotations& split, const AnnotatedImage& image, const Object& object) {
  return fmt::format("{}: object {} ({}): x {:g}, y {:g}, width {:g}, height {:g} on {}x{}", image.path, object.id,
                     split.classes[object.label], object.box.x, object.box.y, object.box.width, object.box.height,
                     image.width, image.height);
}

bool trains(const Object& object, const Config::Data& data) {
  return !object.crowd && (!object.difficult || data.difficult == "train");
}

bool reaches_over(const AnnotatedImage& image, const BoxInFile& box) {
  constexpr double rounding = 0.01;  // of coordinates with two decimals
  return box.x < -rounding || box.y < -rounding || (image.width > 0 && box.x + box.width > image.width + rounding) ||
         (image.height > 0 && box.y + box.height > image.height + rounding);
}

std::string bad_boxes(const Data& data, const Config& config, DataCheck& check) {
  std::string text = "\nboxes\n";
  for (size_t s = 0; s < 2; ++s) {
    std::map<BoxFault, std::vector<std::string>> bad;
    std::vector<std::string> over;
    size_t boxes = 0;
    for (const AnnotatedImage& image : data.splits[s].images)
      for (const Object& object : image.objects) {
        const BoxFault fault = fault_of(object.box, image.width, image.height);
        ++boxes;
        if (fault != BoxFault::none)
          bad[fault].push_back(place_of(data.splits[s], image, object));
        else if (reaches_over(image, object.box))
          over.push_back(place_of(data.splits[s], image, object));
      }
    for (const auto& [fault, found] : bad) {
      text += check_list(fmt::format("{}: bad, {}", split_names[s], name_of(fault)), found);
      if (config.data.bad_boxes == "stop")
        check.errors.push_back(fmt::format("{} bad boxes in {} ({}): repair the file, or set data.bad_boxes: drop",
                                           found.size(), split_names[s], name_of(fault)));
      else
        check.warnings.push_back(fmt::format("{} bad boxes in {} ({}), with data.bad_boxes: drop", found.size(),
                                             split_names[s], name_of(fault)));
    }
    text +=
        check_list(fmt::format("{}: over the edge of the image, and clipped there for training", split_names[s]), over);
    if (over.size() >= 5 && 4 * over.size() > boxes)
      check.warnings.push_back(
          fmt::format("{} of {} boxes of {} reach over the edge of their image: are they x, y, width and height, in "
                      "pixels of these images?",
                      over.size(), boxes, split_names[s]));
  }
  return text;
}

// What images do that a training would stop at, or skip.
void add_bad_images(const std::string& what, const std::string& fix, const Config& config, DataCheck& check) {
  if (config.data.bad_images == "stop")
    check.errors.push_back(fmt::format("{}: {}, or set data.bad_images: skip", what, fix));
  else
    check.warnings.push_back(fmt::format("{}, and are skipped", what));
}

std::string image_files(const Data& data, const Config& config, DataCheck& check) {
  std::string text = "\nimage files\n";
  for (size_t s = 0; s < 2; ++s) {
    std::vector<std::string> bad;
    for (size_t i = 0; i < data.facts[s].size(); ++i)
      if (!data.facts[s][i].fault.empty()) bad.push_back(data.splits[s].images[i].path + ": " + data.facts[s][i].fault);
    text += check_list(fmt::format("{}: missing or unreadable", split_names[s]), bad);
    const Frames& frames = data.frames[s];
    text += check_list(fmt::format("{}: of another size than annotated", split_names[s]), frames.other_size);
    text += check_list(fmt::format("{}: turned upright as EXIF says, for their boxes", split_names[s]), frames.turned);
    const std::vector<std::string>& undecided = frames.of_set.undecided();
    const auto agreed = frames.of_set.agreed();
    text +=
        check_list(fmt::format("{}: stored turned or mirrored, their annotations fit both views{}", split_names[s],
                               undecided.empty() || !agreed ? "" : say(", read ", name_of(*agreed), " as the others")),
                   undecided);
    if (!undecided.empty() && !agreed) try {
        frames.of_set.view();
      } catch (const UsageError& error) {
        check.errors.emplace_back(error.what());
      }
    if (!frames.other_size.empty())
      add_bad_images(
          fmt::format("{} images of {} have another size than annotated", frames.other_size.size(), split_names[s]),
          frames.fix, config, check);
    if (!bad.empty())
      add_bad_images(fmt::format("{} image files of {} are missing or unreadable", bad.size(), split_names[s]),
                     "repair them", config, check);
  }
  return text;
}

// Classes that the test set judges and that no object trains.
void check_training_of_classes(const Data& data, const Config& config, std::vector<std::string>& warnings) {
  std::array<std::vector<int64_t>, 2> objects;
  for (size_t s = 0; s < 2; ++s) {
    objects[s].resize(data.splits[0].classes.size());
    for (const AnnotatedImage& image : data.splits[s].images)
      for (const Object& object : image.objects)
        if (trains(object, config.data) && static_cast<size_t>(object.label) < objects[s].size())
          ++objects[s][static_cast<size_t>(object.label)];
  }
  std::vector<std::string> untrained;
  for (size_t label = 0; label < objects[0].size(); ++label)
    if (objects[0][label] == 0 && objects[1][label] > 0) untrained.push_back(data.splits[0].classes[label]);
  if (!untrained.empty())
    warnings.push_back("no object of train is of a class that test has: " + joined(untrained, ", "));
}

void check_classes(Data& data, const Config& config, DataCheck& check) {
  try {
    number_as({data.splits[0].classes, data.splits[0].category_ids}, data.splits[1]);
    warn_of_absent(absent_classes(data.splits[1]), data.splits[0].classes.size(), check);
    require_classes(config, data.splits[0]);
  } catch (const UsageError& error) {
    check.errors.emplace_back(error.what());
  }
  const int64_t train = objects_that(data, [&](auto&, const Object& object) { return trains(object, config.data); })[0];
  if (train == 0) check.errors.emplace_back("no object trains: give images with objects");
  if (!has_objects_to_find(data.splits[1]))
    check.errors.emplace_back("no object to find in test: give images with objects");
}

void require_checked(const Config::Data& data) {
  std::vector<std::string> checked = annotation_format_names();
  checked.emplace_back("image_folder");
  const bool files = data.name == "cifar10" || data.name == "packed";
  REQUIRE_USAGE(std::ranges::count(checked, data.name) > 0,
                data.name == "packed"    ? "check the folder of images before `octet pack`"
                : data.name == "cifar10" ? "train: it verifies the size and the labels of each file"
                                         : "train: there is nothing to check",
                "`octet check` reads image files, of data.name: ", joined(checked, ", "), "; data.name is '", data.name,
                "', ", files ? "which has files of its own" : "whose images octet makes itself");
}

}  // namespace

DataCheck check_data(const Config& config) {
  require_checked(config.data);
  require_root(config.data);
  if (config.data.name == "image_folder") return check_image_folder(config);
  Data data = read_data(config);
  DataCheck check;
  check.page =
      fmt::format("{}: {} classes in {}\n\n", config.data.name, data.splits[0].classes.size(), config.data.root);
  check.page += overview(data) + classes(data) + image_sizes(data) + box_sizes(data);
  check.page += bad_boxes(data, config, check);
  check.page += image_files(data, config, check);
  check_odd_images(data.paths, data.facts, check);
  check_duplicates(data.paths, data.facts, check);
  check_classes(data, config, check);
  check_training_of_classes(data, config, check.warnings);
  std::set<std::string> doubts;  // both splits may be of one file
  for (const Annotations& split : data.splits) doubts.insert(split.doubts.begin(), split.doubts.end());
  check.warnings.insert(check.warnings.end(), doubts.begin(), doubts.end());
  if (!task_of(config).objects) return check;
  try {
    check_detector(config, data.splits, check);
  } catch (const UsageError& error) {
    check.errors.emplace_back(error.what());
  }
  return check;
}

}  // namespace octet
