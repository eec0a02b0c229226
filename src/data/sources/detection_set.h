// Images with objects, as a detector reads them: resized, perhaps mirrored, normalized, on a canvas.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "src/data/annotations/annotations.h"
#include "src/data/augment/canvases.h"
#include "src/data/augment/mosaic.h"
#include "src/data/images/bad_images.h"
#include "src/data/images/box_frame.h"
#include "src/data/images/normalization.h"
#include "src/data/images/raster.h"
#include "src/data/loader.h"

namespace octet {

// Opens the image of an index in Annotations::images. Several threads call it at once. Throws BadImage.
using OpenImage = std::function<OpenedImage(int64_t index)>;
// Opens the files at the paths of `annotations`, in the frame of their boxes.
OpenImage image_files(const Annotations& annotations, const Config::Data&, ViewOfUndecided);

// Where an image is on its canvas, not mirrored. Its objects are not counted yet.
Truth::Image place(const Canvases&, int canvas, ImageSize file, int64_t short_side);
// The box of an object on the canvas. What lies outside of the image is cut off.
Box on_canvas(const BoxInFile&, const Truth::Image&);
// Whether it has a pixel in each direction: smaller ones do not train.
inline bool is_visible(const Box& on_canvas) { return on_canvas.width() >= 1 && on_canvas.height() >= 1; }

// What to do where no object is visible: a guess from the numbers.
std::string advice_on_sizes(const Annotations&);

class DetectionSet final : public Dataset {
 public:
  // source: what describe() begins with: "coco: /data/train2017". A size that the annotations lack is read from the
  // image. own_side: as in Canvases. mosaics: which samples training reads as mosaics. UsageError: no object is visible
  // on its canvas at any size that the recipe names. Warns if some are not.
  DetectionSet(std::string source, Annotations, OpenImage, const Config::Data&, int64_t own_side = 0,
               const Mosaics& mosaics = {});

  int64_t size() const override { return static_cast<int64_t>(annotations_.images.size()); }
  int64_t classes() const override { return static_cast<int64_t>(annotations_.classes.size()); }
  ImageShape shape() const override { return canvases_.shape(0); }
  std::string describe() const override;
  int32_t label(int64_t) const override { return 0; }  // an image has no class of its own; 0: it counts
  uint64_t fingerprint() const override;               // of names, sizes, boxes and labels
  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override;
  int64_t skipped() const override { return bad_.count(); }

  int64_t bytes_to_read(int64_t index, bool training) const override;

  int canvases() const override { return canvases_.count(); }
  ImageShape canvas_shape(int canvas) const override { return canvases_.shape(canvas); }
  int canvas(int64_t index) const override { return canvas_of_[static_cast<size_t>(index)]; }
  std::vector<std::string> class_names() const override { return annotations_.classes; }
  const Annotations* annotations() const override { return &annotations_; }
  void number_as(const Classes& known) override { octet::number_as(known, annotations_); }
  std::vector<std::string> absent_classes() const override { return octet::absent_classes(annotations_); }
  // Appends the objects that train: neither crowd nor difficult, and visible on the canvas.
  bool read_with_truth(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels,
                       Truth&) const override;

  // The image as its file holds it, RGB. Throws BadImage.
  Raster picture(int64_t index) const;

 private:
  void choose_canvases(const Config::Data&);
  void require_visible_objects() const;
  // Reads a mosaic's parts, its own sample first. A bad image among the others leaves its quarter without pixels.
  bool read_mosaic(const Mosaic&, uint64_t seed, int64_t epoch, uint8_t* pixels, Truth&) const;
  Tile read_part(const Mosaic&, const Mosaic::Part&, uint64_t seed, int64_t epoch, uint8_t* pixels, Truth&) const;
  // Whether an image that is read for this canvas is mirrored, and its size there.
  Truth::Image placed(int64_t index, int canvas, ImageSize file, bool training, uint64_t seed, int64_t epoch) const;
  void add_bad(int64_t index, const BadImage&) const;
  void write(const Raster& image, const ImageShape& canvas, uint8_t* pixels) const;

  std::string source_;
  Annotations annotations_;
  OpenImage open_;
  Canvases canvases_;
  std::vector<int64_t> short_sides_;  // training draws one
  int64_t short_side_;                // of evaluation
  float flip_;                        // share of mirrored images while training
  std::vector<int> canvas_of_;        // each image
  Mosaics mosaics_;
  int64_t max_pixels_;
  mutable BadImages bad_;
};

}  // namespace octet
