#!/usr/bin/env bash
# Checks that dependencies run one way: kernels <- comm <- src, and inside src config, data, quant <- graph <- models,
# weights <- tasks, run <- train <- report <- commands <- main, and train <- library. Each rule names a folder and what
# its files may not include. The script also checks that no source file has more than 500 lines, and that no two headers
# define a type of one name in one namespace: the linker would merge their functions.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0

forbid() {  # FOLDER PATTERN
  if grep -rnE --include='*.h' --include='*.cpp' --include='*.inc' --include='*.cu' "#include \"($2)" "$1"; then
    echo "$1 may not include $2"
    failed=1
  fi
}
forbid kernels 'comm/|src/'
forbid kernels/base 'kernels/(shared|reference|cpu|cuda)/|kernels/backend'
forbid kernels/shared 'kernels/(reference|cpu|cuda)/'
forbid kernels/reference 'kernels/(cpu|cuda)/'
forbid kernels/cpu 'kernels/cuda/'
forbid kernels/cuda 'kernels/(reference|cpu)/'
forbid comm 'src/|kernels/(reference|cpu|cuda)/'
forbid src 'kernels/(reference|cpu|cuda)/'
forbid src/config 'src/(data|quant|graph|models|weights|tasks|run|train|report|commands)/'
forbid src/data 'src/(quant|graph|models|weights|tasks|run|train|report|commands)/'
forbid src/quant 'src/(data|graph|models|weights|tasks|run|train|report|commands)/'
forbid src/graph 'src/(data|models|weights|tasks|run|train|report|commands)/'
forbid src/deploy 'src/(data|models|weights|tasks|run|train|report|commands)/'
forbid src/models 'src/(data|weights|tasks|run|train|report|commands)/'
forbid src/weights 'src/(models|tasks|run|train|report|commands)/'
forbid src/tasks 'src/(weights|run|train|report|commands)/'
forbid src/run 'src/(models|tasks|train|report|commands)/'
forbid src/train 'src/(report|commands)/'
forbid src/report 'src/commands/'
forbid src/library 'src/(report|commands)/'
for folder in config data quant graph models deploy weights tasks run train report commands; do
  forbid "src/$folder" 'src/library/|include/'
done

while read -r lines file; do
  [ "$file" = total ] && continue
  if [ "$lines" -gt 500 ]; then
    echo "$file has $lines lines"
    failed=1
  fi
done < <(find kernels comm src include python \( -name '*.h' -o -name '*.cpp' -o -name '*.inc' -o -name '*.cu' \) -exec wc -l {} +)

twice=$(find kernels comm src include python -name '*.h' -exec awk '
  FNR == 1 { space = "" }
  /^namespace/ { space = $2 }
  /^(struct|class|enum class) [A-Z][A-Za-z0-9]*[^;]*\{/ { sub(/^enum class/, "enum"); print space "::" $2, FILENAME }
' {} + | sort -u | awk '{ files[$1] = files[$1] " " $2; count[$1]++ } END { for (n in count) if (count[n] > 1) print n ":" files[n] }')
if [ -n "$twice" ]; then
  echo "types that two headers define:"
  echo "$twice"
  failed=1
fi
exit $failed
