// Images and what an exported file says of them, as files of NumPy, to try the file in another program.
#pragma once
#include <string>
#include <vector>

#include "src/train/trainer.h"

namespace octet {

class ExportSamples {
 public:
  explicit ExportSamples(const IntegerNetwork& network) : network_(network) {}  // as the file has it

  // Takes the first images of a batch and their answers, until there are 32.
  void take(Trainer&, const Batch&, const Answers&);
  // Writes images.npy (32, 3, H, W), f32 in [0, 1], and what is said of them, f32: logits.npy (32, classes), or of a
  // detector objects.npy (32, D, 6): left, top, right and bottom in pixels of the input, score, label; score 0: there
  // are no more. And for each tensor codes/NAME.npy (4, C, H, W), i16: the codes of the first images, without a zero
  // point.
  void write(const std::string& folder) const;

 private:
  void take_objects(const Truth::Image&, const Answers&);

  const IntegerNetwork& network_;
  std::vector<float> images_, answers_;
  size_t count_ = 0;
  std::vector<std::string> codes_;  // by tensor: its file
};

}  // namespace octet
