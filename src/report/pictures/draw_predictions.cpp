#include "src/report/pictures/draw_predictions.h"

#include <filesystem>

#include "kernels/base/error.h"
#include "src/data/images/decode.h"
#include "src/data/sources/detection_set.h"
#include "src/data/sources/named_images.h"
#include "src/report/pictures/draw_boxes.h"
#include "src/train/predictor.h"

namespace octet {

int64_t draw_predictions(const Config& config, Transport& transport, const PredictionDrawing& options) {
  REQUIRE_USAGE(options.images.empty() || (!options.truth && !options.train),
                "leave --images out to draw images of the data set", "the truth of image files is not known");
  REQUIRE_USAGE(task_of(config).objects, "give the recipe of a detector", config.model.name,
                " finds no objects that could be drawn");
  Config own = config;
  own.detect.score = options.score;
  own.data.bad_images = "skip";
  Predictor network(own, transport, options.weights);
  std::unique_ptr<Dataset> opened;
  if (options.images.empty()) {
    Datasets sets =
        open_datasets(network.config(), options.train, network.knows_names() ? network.classes() : Classes());
    opened = std::move(options.train ? sets.train : sets.test);
  } else {
    opened = open_named_images(network.config(), find_images(options.images), network.classes());
  }
  const auto* const data = dynamic_cast<const DetectionSet*>(opened.get());
  REQUIRE_USAGE(data, "choose data with objects, for example data.name: coco", "data.name is '", config.data.name,
                "', whose images have no objects");
  make_output(options.output);
  const std::vector<int64_t> chosen = spread(data->size(), options.images.empty() ? options.count : data->size());
  const std::vector<Prediction> predictions = network.predict(*selected(*data, chosen));
  const std::vector<std::string> names = network.knows_names() ? network.classes().names : data->class_names();
  for (const Prediction& prediction : predictions) {
    const int64_t index = chosen[static_cast<size_t>(prediction.sample)];
    const AnnotatedImage& image = data->annotations()->images[static_cast<size_t>(index)];
    const Raster pixels = data->picture(index);
    Raster picture = with_boxes(pixels, boxes_of(prediction.answers.detections, names, options.score));
    if (options.truth)
      picture = side_by_side(picture, "prediction", with_boxes(pixels, boxes_of(image, data->class_names())), "truth");
    write_picture(picture_path(options.output, index, image.name), picture);
  }
  return static_cast<int64_t>(predictions.size());
}

}  // namespace octet
