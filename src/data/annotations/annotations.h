// The objects on the images of a data set, from the annotation files of PASCAL VOC, COCO or YOLO. Of images at most
// headers are read.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/data/loader.h"
#include "src/objects.h"

namespace octet {

enum class Split : uint8_t { train, test };

std::vector<std::string> annotation_format_names();  // the values of data.name that describe objects
bool describes_objects(const Config::Data&);
// UsageError: a key is set that another value of data.name reads, and that would be ignored.
void refuse_keys_of_others(const Config::Data&);

// Warns of what is odd about the files of these splits, once each.
void say_doubts(std::initializer_list<const Annotations*> splits);

// The objects that a training or an evaluation of `split` counts.
// train: without crowds, without difficult objects unless data.difficult is `train`, without bad boxes; with
// data.empty_images: skip only images that have an object left.
// test: all. With data.bad_boxes: drop, bad boxes stay too, because the reference evaluations count them; only boxes
// of no finite size are left out.
// Boxes are as in the file and may reach over the edge of their image: training clips them, evaluation does not.
// UsageError: a file is missing or damaged, an image is there twice or lies outside its folder, a class is unknown, a
// box is bad and data.bad_boxes is `stop`, or no object is left to train.
Annotations read_annotations(const Config&, Split);

// What is judged of a data set that did not train: the set for evaluation that its files name or, if they name none,
// all of its images. Counts as the test of read_annotations(); data.holdout plays no part.
Annotations read_annotations_to_judge(const Config&);

// Whether the files name a set for evaluation. If not, data.holdout divides the training set.
bool has_test_set(const Config::Data&);

// Everything that the files of `split` say, bad boxes too.
Annotations read_all_annotations(const Config&, Split);

// Whether the test set has an object that counts as found or missed. Without one no figure is defined.
bool has_objects_to_find(const Annotations& test);
// Before a test set is judged. UsageError: it has none. root: of the data.
void require_objects_to_find(const Annotations& test, const std::string& root);

// What is wrong with a box. width, height: of its image in pixels; 0: not known.
enum class BoxFault : uint8_t { none, not_finite, no_area, outside };
BoxFault fault_of(const BoxInFile&, int32_t width, int32_t height);
const char* name_of(BoxFault);

// UsageError, with the number to set: config.model.classes is neither 0 nor the number of the data's classes.
void require_classes(const Config&, const Annotations&);
std::string name_with_id(const std::string& name, int64_t category_id);  // "red (id 1)"
// Makes names different that several categories share, which are classes of their own, by name_with_id().
void tell_apart(std::vector<std::string>& names, const std::vector<int64_t>& category_ids);
// The classes of the annotations that train with a test set. Empty: there are none, or the format numbers both splits
// as one. UsageError: as read_annotations().
Classes training_classes(const Config&);
// Gives the objects of a test set the labels that `known` has for the classes of the same names. The categories keep
// the ids of their file, so that detections are judged by it. UsageError that lists them: classes that are not in
// `known`.
void number_as(const Classes& known, Annotations& test);
std::vector<std::string> absent_classes(const Annotations&);  // names of those without a category

}  // namespace octet
