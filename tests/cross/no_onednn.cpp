// In place of kernels/cpu/conv_onednn.cpp: there is no oneDNN for the other processor.
#include "kernels/cpu/convolution.h"

namespace octet::cpu {

std::unique_ptr<Convolution> make_onednn_convolution(Threads) {
  REQUIRE(false, "use another convolution of real numbers", "this program is built without oneDNN");
}

}  // namespace octet::cpu
