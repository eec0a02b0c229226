// Octet's rasters and OpenCV's matrices, with which tests make and compare pictures.
#pragma once
#include <opencv2/imgproc.hpp>

#include "src/data/images/raster.h"

namespace octet {

// Of the same pixels, which the matrix keeps.
inline Raster raster_of(const cv::Mat& mat) { return {mat.rows, mat.cols, mat.channels(), mat.data}; }
inline cv::Mat mat_of(const Raster& raster) {
  return cv::Mat(raster.rows, raster.cols, CV_8UC(raster.channels), raster.data, raster.step).clone();
}

}  // namespace octet
