// Parts of pages about a classifier's answers, as HTML.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/data/loader.h"
#include "src/tasks/classification/class_answers.h"
#include "src/tasks/classification/class_report.h"

namespace octet {

// The figures of the classes, the pairs that are taken for each other most often and, of up to 100 classes, the
// confusion matrix.
std::string class_cards(const ClassReport&);

inline constexpr const char* mistakes_heading =
    "<h2>The most confident mistakes</h2><p>Images of the test set that the network took for another class, with the "
    "probability that it gave this class. Some labels may be wrong, too.</p>\n";
// The wrong answers with the greatest probabilities, as many as a page shows.
std::vector<Answer> confident_mistakes(const ClassAnswers&);
// Pictures of these answers. data: which they are about. What cannot be read now is left out.
std::string mistake_cards(const ClassAnswers&, std::span<const Answer> wrong, const ClassReport&, const Dataset& data);

}  // namespace octet
