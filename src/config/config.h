// The typed configuration. The table in keys.cpp has a row for each member: its key, its range and its meaning.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace octet {

inline constexpr int64_t automatic = 0;  // the value `auto` of keys that the machine decides, see settle.h

struct Config {
  std::string file;  // the path of its file, for messages
  int64_t seed = 1;

  struct Model {
    std::string name = "resnet20";
    int64_t classes = 10;           // 0: as the data has; only for objects on images
    double dropout = 0.5;           // alexnet, inception_v3, efficientnet_lite0
    double auxiliary_weight = 0.4;  // inception_v3 on images of 299 pixels: weight of the auxiliary head's loss
    std::string initial_weights;    // a safetensors file; empty: random
    std::string head = "keep";      // of initial_weights: keep | new: the layers whose outputs belong to classes
    // Detectors:
    std::string backbone = "resnet50";
    std::string initial_backbone;       // a safetensors file of the classification network; empty: random
    int64_t neck_channels = 256;        // of the feature pyramid and the heads
    int64_t head_depth = 4;             // convolutions before the predictors of a dense head
    int64_t head_channels = 1024;       // of the linear layers of regions, or before R-FCN's maps
    int64_t finest_stride = 8;          // retinanet: pixels of the image for one of the finest level; 8 or 4
    std::vector<int64_t> anchor_sizes;  // of each level, in pixels; empty: the network's own
    std::vector<double> anchor_ratios = {0.5, 1, 2};  // height / width
    std::string norm = "batch";                       // of the backbone: batch | frozen
    int64_t freeze_stages = 0;  // of the backbone: 1: the stem; 2: the stem and layer1; ... 5: all
    double norm_epsilon = -1;   // of the backbone: added to the variance; -1: as in the published network
  } model;

  struct Rpn {  // two-stage detectors: how regions are proposed; without a suffix while training
    int64_t before_nms = 0, before_nms_test = 0;  // the best answers of a level; 0: the network's own
    int64_t after_nms = 0, after_nms_test = 0;    // of an image, after suppression; 0: the network's own
    double nms = 0.7;                             // the largest overlap of two proposals
    double positive = 0.7, negative = 0.3;        // overlap with an object above which, below which an anchor trains
    int64_t samples = 256;                        // anchors of an image that train
    double fraction = 0.5;                        // of them, at most, find an object
  } rpn;

  struct Roi {                              // two-stage detectors: how the layers behind regions train
    double positive = 0.5, negative = 0.5;  // overlap with an object, as rpn
    int64_t samples = 0;                    // regions of an image that train; 0: the network's own
    double fraction = 0.25;                 // of them, at most, find an object
    int64_t hard = 0;                       // of them train, those with the largest losses; 0: all
  } roi;

  struct Detect {
    double score = 0.05;       // the least score of a detection
    double nms = 0.5;          // the largest overlap of two detections of a class
    int64_t detections = 100;  // of an image
  } detect;

  struct Policy {
    std::string name = "unified_int8";
    struct {
      int64_t weight = 8, activation = 8, gradient = 8;
    } bits;
    bool quantize_first = false, quantize_last = false;
    bool unsigned_activations = true;
    std::string activation_range = "held";  // held | batch
    struct {
      bool enabled = true;
      int64_t period = 100;
      int64_t candidates = 65;
      int64_t sample = 0;              // one of every `sample` blocks of a large gradient is searched; 0: by the period
      int64_t forced_sample = 0;       // the same in searches that saturation forces; 0: as sample
      bool record_histograms = false;  // of each layer's gradient at every update, for `octet inspect`
    } clip;
    struct {
      bool enabled = true;
      double alpha = 20, beta = 0.1;
    } lr_scale;
  } policy;

  std::string storage = "bf16";  // f32 | bf16 | int8: how convolution outputs are kept for the backward pass

  struct Data {
    std::string name =
        "shapes";  // a data source of src/data/sources/open.cpp, or annotations of src/data/annotations/annotations.cpp
    std::string root;
    int64_t batch = 128;              // global; or automatic
    int64_t workers = 2;              // decode threads of each rank
    int64_t image_size = 0;           // 0: the data set's own (cifar10, shapes: 32; image_folder: 224)
    std::string bad_images = "stop";  // stop | skip
    int64_t max_pixels = 64'000'000;  // larger image headers are refused before anything is allocated
    int64_t samples = 0;              // size of the training set that is drawn (0: the data source's own)
    bool augment = true;
    bool balanced = false;  // training reads every class equally often
    double holdout = 0;     // share of the images that are kept for evaluation; 0: a set of their own holds these
    std::string annotations, annotations_test;  // coco: files below `root`; empty: instances_{train,val}2017.json
    std::string images, images_test;            // coco: folders below `root`; empty: train2017, val2017
    std::string sets, sets_test;        // voc: image sets, "2007/trainval, 2012/trainval"; empty: by what exists
    std::string difficult = "skip";     // skip | train
    std::string bad_boxes = "stop";     // stop | drop
    std::string empty_images = "keep";  // keep | skip
    std::string turn_upright = "auto";  // auto | true | false: whether boxes mean the picture as EXIF turns it
    std::vector<int64_t> canvas_heights, canvas_widths;  // detection: the sizes of the network's input (canvases.h)
    int64_t short_side = 0, long_side = 0;  // detection: an image's sides after resizing, in pixels; 0: no limit
    std::vector<int64_t> short_sides;       // detection: training draws one of these in place of short_side
    double flip = 0.5;                      // detection: share of mirrored images while training
    std::vector<double> mean, deviation;    // of red, green, blue, of pixel / 255; empty: the data set's own
  } data;

  struct Augment {                     // changes of training images; none by default
    int64_t randaugment = 0;           // operations on an image
    int64_t magnitude = 9;             // of these operations, of 30
    std::vector<double> color_jitter;  // brightness, contrast, saturation, hue; empty: none
    double erasing = 0;                // share of the images of which a rectangle is erased
    double mixup = 0;                  // alpha of the Beta distribution of the share of an image; 0: none is mixed
    double cutmix = 0;                 // the same, of the share of the pixels that stay
    double mosaic = 0;                 // share of the images with objects that become mosaics of four
    double mosaic_until = 0.9;         // of train.epochs; no mosaics after them
  } augment;

  struct Train {
    int64_t epochs = 30;
    int64_t memory_mb = 0;  // of a rank; 0: no limit
    double minutes = 0;     // in place of epochs: as many as fit into this time; 0: no limit
    int64_t steps = 0;      // stop after this number of steps; 0: after `epochs`
    double lr = 0.1;
    double head_lr = 0;    // of layers whose outputs belong to classes; 0: lr
    std::string freeze;    // the last stage that never trains; empty: all stages train
    int64_t patience = 0;  // evaluations without a better one after which the training ends; 0: it never does
    std::string schedule = "cosine";  // constant | step | multi_step | cosine
    std::vector<int64_t> milestones;  // multi_step: epochs
    int64_t step_epochs = 30;         // step: epochs between falls
    double gamma = 0.1;               // step, multi_step: factor
    std::string optimizer = "sgd";    // sgd | adamw
    double momentum = 0.9;            // of adamw: beta1
    bool nesterov = false;
    double beta2 = 0.999, epsilon = 1e-8;  // of adamw
    double decay = 1e-4;
    bool decay_norm = true;  // weight decay on norm parameters and biases too, as PyTorch's default
    int64_t norm_group = 0;  // images that share the statistics of a norm; 0: all that a rank computes at once
    int64_t accumulate = 1;  // parts of a rank's batch, which are computed one after the other
    double warmup_epochs = 0;
    double ema = 0;  // decay of the average of weights that is evaluated and kept; 0: the weights themselves
    double label_smoothing = 0;
    std::string on_nonfinite = "stop";  // stop | skip
    int64_t eval_every_epochs = 1;
    int64_t log_every_steps = 50;
    std::string prometheus;  // file of the latest figures, for Prometheus' textfile collector; empty: none
  } train;

  struct Backend {
    std::string device = "cpu";  // cpu | cuda
    std::string isa;             // empty: the best here
    int64_t threads = 0;         // of each rank; 0: the cores this rank may use
    bool check_kernels = false;  // cuda: wait after every kernel, so that an error names it
    bool share_gpu = false;      // cuda: ranks of one machine may share a GPU, for tests
    bool graph = true;           // cuda: record a step's kernels once and repeat them as one graph
  } backend;

  struct Comm {
    std::string exchange = "int8";   // fp32 | int8 | exact
    std::string transport = "auto";  // auto | nccl | mpi: how the gradients of GPUs are sent
    bool overlap = true;             // buckets are exchanged while backward still runs
    double bucket_mb = 4;
    double timeout_seconds =
        180;  // without progress for so long, the rank at fault is named and the job ends; 0: never
  } comm;

  struct Checkpoint {
    int64_t every_steps = 0;   // 0: at the end of each epoch
    double every_minutes = 0;  // since the last one, beside the steps; 0: not by time
    int64_t keep = 3;
    bool best = true;  // the weights of the best evaluation are kept too
  } checkpoint;
};

// By override, where it was written: "study.yaml:3:7". Messages name others as "--set train.lr=1".
using Origins = std::map<std::string, std::string>;
// Reads the file, then applies overrides "key=value" in order. Every mistake is a UsageError with file, line, column
// and the nearest known key. Values are checked against the key table. See yaml.h for the YAML that is read.
Config load_config(const std::string& file, const std::vector<std::string>& overrides, const Origins& = {});
// Parses `text` as the content of `file`.
Config parse_config(const std::string& text, const std::string& file, const std::vector<std::string>& overrides,
                    const Origins& = {});
// The resolved configuration as YAML that load_config reads back to the same values.
std::string to_yaml(const Config&);
// A line for each key: path, default, allowed values, meaning. names: the allowed values of keys whose names are in
// tables outside this folder, by key. columns: of the terminal; where there is no room for that, two lines for each.
std::string describe_keys(const std::map<std::string, std::vector<std::string>>& names = {}, size_t columns = 0);
// Of the key `topic` its meaning, default and values; of a section, or of the last words of paths, those of each such
// key. With a dot at its end the topic is a section alone. Empty: there is none.
std::string describe_key(const std::string& topic, const std::map<std::string, std::vector<std::string>>& names = {});

}  // namespace octet
