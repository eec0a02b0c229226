#include "src/data/sources/detection_set.h"

#include <algorithm>
#include <array>
#include <optional>

#include "src/data/draws.h"
#include "src/data/fingerprint.h"
#include "src/data/images/pixel_bytes.h"
#include "src/data/images/resize.h"

namespace octet {
namespace {

// The objects that train. tile: where a mosaic shows the image; null: the image is alone.
void append_objects(const AnnotatedImage& annotated, const Truth::Image& image, const Tile* tile, Truth& truth) {
  for (const Object& object : annotated.objects) {
    if (object.crowd || object.difficult) continue;
    const Box alone = on_canvas(object.box, image);
    const std::optional<Box> box = tile ? on_tile(alone, *tile) : alone;
    if (box && is_visible(*box)) truth.objects.push_back({*box, object.label});
  }
}

// Counts the objects since `first` as those of the image.
void append_image(Truth::Image image, size_t first, Truth& truth) {
  image.first = static_cast<uint32_t>(first);
  image.count = static_cast<uint32_t>(truth.objects.size() - first);
  truth.images.push_back(image);
}

void scale_by(double factor, Truth::Image& image) {
  const auto scaled = [&](int32_t side) { return std::max(1, static_cast<int32_t>(side * factor)); };
  image.content_width = scaled(image.content_width), image.content_height = scaled(image.content_height);
  image.scale_x = double(image.content_width) / double(image.width);
  image.scale_y = double(image.content_height) / double(image.height);
}

// The image as its place says: resized, perhaps mirrored. Throws BadImage.
Raster content_of(const OpenedImage& opened, const Truth::Image& image) {
  const Raster decoded = opened.decode(std::min(1.0, std::max(image.scale_x, image.scale_y)));
  const Raster content = resized(decoded, {image.content_width, image.content_height}, Resizing::bilinear);
  return image.flipped ? mirrored(content) : content;
}

}  // namespace

Truth::Image place(const Canvases& canvases, int canvas, ImageSize file, int64_t short_side) {
  const ImageSize content = canvases.content(canvas, file, short_side);
  return {.width = static_cast<int32_t>(file.width),
          .height = static_cast<int32_t>(file.height),
          .content_width = static_cast<int32_t>(content.width),
          .content_height = static_cast<int32_t>(content.height),
          .scale_x = double(content.width) / double(file.width),
          .scale_y = double(content.height) / double(file.height)};
}

Box on_canvas(const BoxInFile& box, const Truth::Image& image) {
  const double x1 = std::clamp<double>(box.x, 0, image.width) * image.scale_x;
  const double x2 = std::clamp<double>(box.x + box.width, 0, image.width) * image.scale_x;
  const double y1 = std::clamp<double>(box.y, 0, image.height) * image.scale_y;
  const double y2 = std::clamp<double>(box.y + box.height, 0, image.height) * image.scale_y;
  const double mirror = image.content_width;
  return {static_cast<float>(image.flipped ? mirror - x2 : x1), static_cast<float>(y1),
          static_cast<float>(image.flipped ? mirror - x1 : x2), static_cast<float>(y2)};
}

std::string advice_on_sizes(const Annotations& annotations) {
  double end = 0;
  for (const AnnotatedImage& image : annotations.images)
    for (const Object& object : image.objects)
      end = std::max({end, object.box.x + object.box.width, object.box.y + object.box.height});
  if (end <= 1.5)
    return say("give boxes in pixels: the largest coordinate is ", end, ", as of boxes in shares of the image");
  return "choose larger canvases, data.short_side and data.long_side; `octet check` shows the sizes of the objects";
}

OpenImage image_files(const Annotations& annotations, const Config::Data& data, ViewOfUndecided undecided) {
  struct File {
    std::string path;
    ImageSize annotated;
  };
  std::vector<File> files;
  for (const AnnotatedImage& image : annotations.images) files.push_back({image.path, {image.height, image.width}});
  return [files = std::move(files), max_pixels = data.max_pixels, turn_upright = data.turn_upright,
          undecided = std::move(undecided)](int64_t index) {
    const auto& [path, annotated] = files[static_cast<size_t>(index)];
    const ImageFile file(path, max_pixels);
    const std::optional<View> view = view_of_boxes(annotated, file.header(), turn_upright);
    return file.seen(view ? *view : undecided(path));
  };
}

// Of an image whose annotation has no size, so that its boxes could not be checked before.
static void require_boxes_inside(const AnnotatedImage& image) {
  for (const Object& object : image.objects) {
    const BoxFault fault = fault_of(object.box, image.width, image.height);
    REQUIRE_USAGE(fault == BoxFault::none,
                  "repair the file, or set data.bad_boxes: drop; `octet check` lists all bad boxes", image.path,
                  ": object ", object.id, ": a bad box: ", name_of(fault), " of ", image.width, " x ", image.height);
  }
}

DetectionSet::DetectionSet(std::string source, Annotations annotations, OpenImage open, const Config::Data& data,
                           int64_t own_side, const Mosaics& mosaics)
    : source_(std::move(source)),
      annotations_(std::move(annotations)),
      open_(std::move(open)),
      canvases_(data, own_side),
      short_sides_(data.augment && !data.short_sides.empty() ? data.short_sides : std::vector{data.short_side}),
      short_side_(data.short_side),
      flip_(data.augment ? static_cast<float>(data.flip) : 0),
      mosaics_(mosaics),
      max_pixels_(data.max_pixels),
      bad_(data) {
  choose_canvases(data);
  require_visible_objects();
}

void DetectionSet::choose_canvases(const Config::Data& data) {
  for (int64_t index = 0; index < size(); ++index) {
    AnnotatedImage& image = annotations_.images[static_cast<size_t>(index)];
    try {
      if (image.width == 0 || image.height == 0) {
        const ImageSize file = open_(index).size;
        image.width = static_cast<int32_t>(file.width), image.height = static_cast<int32_t>(file.height);
        if (data.bad_boxes == "stop") require_boxes_inside(image);
      }
      canvas_of_.push_back(canvases_.of({image.height, image.width}));
    } catch (const BadImage& bad) {
      add_bad(index, bad);
      canvas_of_.push_back(0);
    }
  }
}

void DetectionSet::require_visible_objects() const {
  std::vector<int64_t> short_sides = short_sides_;
  short_sides.push_back(short_side_);
  int64_t visible = 0, all = 0;
  for (int64_t index = 0; index < size(); ++index) {
    const AnnotatedImage& image = annotations_.images[static_cast<size_t>(index)];
    if (image.width == 0 || image.height == 0) continue;  // a bad image
    std::vector<Truth::Image> places;
    for (const int64_t short_side : short_sides)
      places.push_back(place(canvases_, canvas(index), {image.height, image.width}, short_side));
    for (const Object& object : image.objects) {
      if (object.crowd || object.difficult) continue;
      ++all;
      visible += std::ranges::any_of(places, [&](const auto& at) { return is_visible(on_canvas(object.box, at)); });
    }
  }
  REQUIRE_USAGE(visible > 0 || all == 0, advice_on_sizes(annotations_), describe(),
                ": no object has a pixel in each direction on its canvas");
  if (visible < all)
    spdlog::warn(
        "{}: {} of {} objects have no pixel in each direction on their canvas: they do not train, and can hardly be "
        "found",
        source_, all - visible, all);
}

std::string DetectionSet::describe() const {
  size_t objects = 0;
  for (const AnnotatedImage& image : annotations_.images) objects += image.objects.size();
  return say(source_, ": ", size(), " images with ", objects, " objects of ", classes(), " classes");
}

uint64_t DetectionSet::fingerprint() const {
  uint64_t all = 0;
  for (const std::string& name : annotations_.classes) all = octet::fingerprint(all, name);
  for (const AnnotatedImage& image : annotations_.images) {
    all = octet::fingerprint(all, image.name);
    all = octet::fingerprint(all, std::array{image.height, image.width});
    for (const Object& object : image.objects) {
      const BoxInFile& box = object.box;
      all = octet::fingerprint(all, std::array{box.x, box.y, box.width, box.height, object.area});
      all = octet::fingerprint(all, std::array{object.label, int32_t{object.crowd}, int32_t{object.difficult}});
    }
  }
  return all;
}

bool DetectionSet::read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const {
  Truth unused;
  return read_with_truth(index, training, seed, epoch, pixels, unused);
}

bool DetectionSet::read_with_truth(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels,
                                   Truth& truth) const {
  if (training) {
    const auto mosaic = mosaics_.drawn(seed, epoch, index, size(), canvas_shape(canvas(index)));
    if (mosaic) return read_mosaic(*mosaic, seed, epoch, pixels, truth);
  }
  try {
    const OpenedImage opened = open_(index);
    const Truth::Image image = placed(index, canvas(index), opened.size, training, seed, epoch);
    write(content_of(opened, image), canvas_shape(canvas(index)), pixels);
    const size_t first = truth.objects.size();
    append_objects(annotations_.images[static_cast<size_t>(index)], image, nullptr, truth);
    append_image(image, first, truth);
    return true;
  } catch (const BadImage& bad) {
    add_bad(index, bad);
    return false;
  }
}

// A mosaic's parts are read one after the other.
int64_t DetectionSet::bytes_to_read(int64_t index, bool training) const {
  const AnnotatedImage& image = annotations_.images[static_cast<size_t>(index)];
  if (image.path.empty() || image.width == 0 || image.height == 0) return 0;
  const int64_t short_side = training ? *std::ranges::max_element(short_sides_) : short_side_;
  const Truth::Image at = place(canvases_, canvas(index), {image.height, image.width}, short_side);
  const double scale = std::min(1.0, std::max(at.scale_x, at.scale_y));
  return octet::bytes_to_read(
      image.path, max_pixels_, [=](ImageSize) { return scale; }, std::max(at.content_width, at.content_height));
}

bool DetectionSet::read_mosaic(const Mosaic& mosaic, uint64_t seed, int64_t epoch, uint8_t* pixels,
                               Truth& truth) const {
  const int64_t own = mosaic.parts.front().sample;
  const ImageShape shape = canvas_shape(canvas(own));
  const size_t first = truth.objects.size();
  write_no_pixels(shape.height * shape.width, pixels);
  Truth::Image all{.index = own};
  for (const Mosaic::Part& part : mosaic.parts) {
    try {
      const Tile tile = read_part(mosaic, part, seed, epoch, pixels, truth);
      all.content_width = std::max(all.content_width, static_cast<int32_t>(tile.right));
      all.content_height = std::max(all.content_height, static_cast<int32_t>(tile.bottom));
    } catch (const BadImage& bad) {
      add_bad(part.sample, bad);
      if (&part == &mosaic.parts.front()) return false;
    }
  }
  all.width = all.content_width, all.height = all.content_height;
  append_image(all, first, truth);
  return true;
}

Tile DetectionSet::read_part(const Mosaic& mosaic, const Mosaic::Part& part, uint64_t seed, int64_t epoch,
                             uint8_t* pixels, Truth& truth) const {
  const int canvas = this->canvas(mosaic.parts.front().sample);
  const ImageShape shape = canvas_shape(canvas);
  const OpenedImage opened = open_(part.sample);
  Truth::Image image = placed(part.sample, canvas, opened.size, true, seed, epoch);
  scale_by(part.scale, image);
  const Raster content = content_of(opened, image);
  const Tile tile = tile_of(mosaic, part, {content.rows, content.cols}, shape);
  for (int64_t y = tile.top; y < tile.bottom; ++y)
    write_pixels(content.ptr(static_cast<int>(y - tile.y), static_cast<int>(tile.left - tile.x)),
                 tile.right - tile.left, pixels + (y * shape.width + tile.left) * pixel_channels);
  append_objects(annotations_.images[static_cast<size_t>(part.sample)], image, &tile, truth);
  return tile;
}

Truth::Image DetectionSet::placed(int64_t index, int canvas, ImageSize file, bool training, uint64_t seed,
                                  int64_t epoch) const {
  Draws draws(seed, epoch, DrawStream::augment, index);
  const bool flipped = training && draws.chance(flip_);
  const int64_t short_side =
      training ? short_sides_[draws.below(static_cast<uint32_t>(short_sides_.size()))] : short_side_;
  Truth::Image image = place(canvases_, canvas, file, short_side);
  image.index = index;
  image.flipped = flipped;
  return image;
}

void DetectionSet::add_bad(int64_t index, const BadImage& bad) const {
  const AnnotatedImage& annotated = annotations_.images[static_cast<size_t>(index)];
  bad_.add(index, annotated.path.empty() ? annotated.name : annotated.path, bad);
}

void DetectionSet::write(const Raster& image, const ImageShape& canvas, uint8_t* pixels) const {
  for (int y = 0; y < image.rows; ++y, pixels += canvas.width * pixel_channels) {
    write_pixels(image.ptr(y), image.cols, pixels);
    write_no_pixels(canvas.width - image.cols, pixels + int64_t{image.cols} * pixel_channels);
  }
  write_no_pixels((canvas.height - image.rows) * canvas.width, pixels);
}

Raster DetectionSet::picture(int64_t index) const { return open_(index).decode(1); }

}  // namespace octet
