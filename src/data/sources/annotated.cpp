// Images with objects from files, in the format of VOC, COCO or YOLO.
#include "kernels/base/error.h"
#include "src/data/annotations/annotations.h"
#include "src/data/sources/detection_set.h"

namespace octet {

Datasets open_annotated(const Config& config, bool training) {
  const auto open = [&](Annotations annotations, Split split) {
    OpenImage files =
        image_files(annotations, config.data,
                    as_the_set([config, split] { return read_all_annotations(config, split); }, config.data));
    return std::make_unique<DetectionSet>(say(config.data.name, ": ", config.data.root), std::move(annotations),
                                          std::move(files), config.data, 0, Mosaics(config));
  };
  Datasets sets;
  Annotations test = read_annotations(config, Split::test), train;
  if (training) train = read_annotations(config, Split::train);  // difficult objects only if they are to train
  say_doubts({&test, &train});
  sets.test = open(std::move(test), Split::test);
  if (!training) return sets;
  for (AnnotatedImage& image : train.images)
    for (Object& object : image.objects) object.difficult = false;
  sets.train = open(std::move(train), Split::train);
  return sets;
}

}  // namespace octet
