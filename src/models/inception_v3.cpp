// InceptionV3 (Szegedy et al., "Rethinking the Inception Architecture", CVPR 2016), with torchvision's names and
// shapes.
#include "src/models/models.h"

namespace octet {
namespace {

struct Inception {
  Graph& graph;

  Edge conv(const std::string& name, Edge x, int64_t out, Extent kernel, int stride = 1, Extent pad = 0) {
    return octet::conv(graph, name + ".conv", x,
                       {.out = out,
                        .kernel = kernel,
                        .stride = stride,
                        .pad = pad,
                        .norm = name + ".bn",
                        .activation = Activation::relu,
                        .epsilon = 1e-3f});
  }
  Edge pool_branch(const std::string& name, Edge x, int64_t out) {
    const PoolOptions average{.kernel = 3, .stride = 1, .pad = 1, .kind = PoolKind::average, .count_padding = true};
    return conv(name + ".branch_pool", pool(graph, name + ".pool", x, average), out, 1);
  }
  Edge halved(const std::string& name, Edge x) { return pool(graph, name + ".pool", x, {.kernel = 3, .stride = 2}); }

  // Figure 5 replaces a 5x5 convolution by two of 3x3. Like torchvision's, this block has a branch of each kind.
  Edge a(const std::string& name, Edge x, int64_t pooled) {
    const Edge one = conv(name + ".branch1x1", x, 64, 1);
    const Edge five = conv(name + ".branch5x5_2", conv(name + ".branch5x5_1", x, 48, 1), 64, 5, 1, 2);
    Edge three = conv(name + ".branch3x3dbl_1", x, 64, 1);
    three = conv(name + ".branch3x3dbl_2", three, 96, 3, 1, 1);
    three = conv(name + ".branch3x3dbl_3", three, 96, 3, 1, 1);
    return concat(graph, name, {one, five, three, pool_branch(name, x, pooled)});
  }
  // Figure 10: halves height and width.
  Edge b(const std::string& name, Edge x) {
    const Edge three = conv(name + ".branch3x3", x, 384, 3, 2);
    Edge twice = conv(name + ".branch3x3dbl_1", x, 64, 1);
    twice = conv(name + ".branch3x3dbl_2", twice, 96, 3, 1, 1);
    twice = conv(name + ".branch3x3dbl_3", twice, 96, 3, 2);
    return concat(graph, name, {three, twice, halved(name, x)});
  }
  // Figure 6: a 7x7 convolution as 1x7 and 7x1.
  Edge c(const std::string& name, Edge x, int64_t width) {
    const Extent row{1, 7}, column{7, 1}, row_pad{0, 3}, column_pad{3, 0};
    const Edge one = conv(name + ".branch1x1", x, 192, 1);
    Edge seven = conv(name + ".branch7x7_1", x, width, 1);
    seven = conv(name + ".branch7x7_2", seven, width, row, 1, row_pad);
    seven = conv(name + ".branch7x7_3", seven, 192, column, 1, column_pad);
    Edge twice = conv(name + ".branch7x7dbl_1", x, width, 1);
    twice = conv(name + ".branch7x7dbl_2", twice, width, column, 1, column_pad);
    twice = conv(name + ".branch7x7dbl_3", twice, width, row, 1, row_pad);
    twice = conv(name + ".branch7x7dbl_4", twice, width, column, 1, column_pad);
    twice = conv(name + ".branch7x7dbl_5", twice, 192, row, 1, row_pad);
    return concat(graph, name, {one, seven, twice, pool_branch(name, x, 192)});
  }
  Edge d(const std::string& name, Edge x) {
    const Edge three = conv(name + ".branch3x3_2", conv(name + ".branch3x3_1", x, 192, 1), 320, 3, 2);
    Edge seven = conv(name + ".branch7x7x3_1", x, 192, 1);
    seven = conv(name + ".branch7x7x3_2", seven, 192, {1, 7}, 1, {0, 3});
    seven = conv(name + ".branch7x7x3_3", seven, 192, {7, 1}, 1, {3, 0});
    seven = conv(name + ".branch7x7x3_4", seven, 192, 3, 2);
    return concat(graph, name, {three, seven, halved(name, x)});
  }
  // Figure 7: a 3x3 convolution as 1x3 and 3x1 in parallel.
  Edge e(const std::string& name, Edge x) {
    const Extent row{1, 3}, column{3, 1}, row_pad{0, 1}, column_pad{1, 0};
    const Edge one = conv(name + ".branch1x1", x, 320, 1);
    const Edge three = conv(name + ".branch3x3_1", x, 384, 1);
    const Edge three_a = conv(name + ".branch3x3_2a", three, 384, row, 1, row_pad);
    const Edge three_b = conv(name + ".branch3x3_2b", three, 384, column, 1, column_pad);
    Edge twice = conv(name + ".branch3x3dbl_1", x, 448, 1);
    twice = conv(name + ".branch3x3dbl_2", twice, 384, 3, 1, 1);
    const Edge twice_a = conv(name + ".branch3x3dbl_3a", twice, 384, row, 1, row_pad);
    const Edge twice_b = conv(name + ".branch3x3dbl_3b", twice, 384, column, 1, column_pad);
    return concat(graph, name, {one, three_a, three_b, twice_a, twice_b, pool_branch(name, x, 192)});
  }

  // In the large form images shrink to an eighth before the first block. The other two have no pooling, and that for
  // the smallest images has no strides either, as common CIFAR forms.
  Edge stem(Edge x, size_t form) {
    const bool large = form == 2;
    x = conv("Conv2d_1a_3x3", x, 32, 3, form > 0 ? 2 : 1, large ? 0 : 1);
    x = conv("Conv2d_2a_3x3", x, 32, 3, 1, large ? 0 : 1);
    x = conv("Conv2d_2b_3x3", x, 64, 3, 1, 1);
    if (large) x = pool(graph, "maxpool1", x, {.kernel = 3, .stride = 2});
    x = conv("Conv2d_3b_1x1", x, 80, 1);
    x = conv("Conv2d_4a_3x3", x, 192, 3);
    return large ? pool(graph, "maxpool2", x, {.kernel = 3, .stride = 2}) : x;
  }

  Edge auxiliary(Edge x, int64_t classes) {
    x = pool(graph, "AuxLogits.pool", x, {.kernel = 5, .stride = 3, .kind = PoolKind::average});
    x = conv("AuxLogits.conv1", conv("AuxLogits.conv0", x, 128, 1), 768, 5);
    return linear(graph, "AuxLogits.fc", global_pool(graph, "AuxLogits.avgpool", x),
                  {.out = classes, .gives_logits = true});
  }
};

}  // namespace

std::vector<Head> inception_v3(Graph& graph, Edge x, const Config::Model& model, size_t form) {
  Inception net{graph};
  x = net.stem(x, form);
  x = net.a("Mixed_5b", x, 32);
  x = net.a("Mixed_5c", x, 64);
  x = net.a("Mixed_5d", x, 64);
  x = net.b("Mixed_6a", x);
  x = net.c("Mixed_6b", x, 128);
  x = net.c("Mixed_6c", x, 160);
  x = net.c("Mixed_6d", x, 160);
  x = net.c("Mixed_6e", x, 192);
  std::vector<Head> heads(1);
  // The auxiliary head's 5x5 convolution needs a map of 17x17 here, which follows from images of 299 pixels, as in
  // torchvision.
  if (side_of_images(graph) >= 299) heads.push_back({net.auxiliary(x, model.classes), float(model.auxiliary_weight)});
  x = net.d("Mixed_7a", x);
  x = net.e("Mixed_7b", x);
  x = net.e("Mixed_7c", x);
  x = dropout(graph, "dropout", global_pool(graph, "avgpool", x), {float(model.dropout)});
  heads[0].logits = linear(graph, "fc", x, {.out = model.classes, .gives_logits = true});
  return heads;
}

}  // namespace octet
