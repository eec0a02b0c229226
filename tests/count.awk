# Counts the results in a JUnit file of ctest: prints "passed failed skipped". A GoogleTest program counts with each of its
# cases (once, however many ranks ran them), any other test as one; a program that failed without a failed case counts too.
function note(kind,    name) {
  name = substr($0, RSTART + 13, RLENGTH - 13)
  if (name in result && (result[name] == "failed" || kind != "failed")) return
  if (name in result) count[result[name]]--
  else cases++
  result[name] = kind
  count[kind]++
  failures += kind == "failed"
}
match($0, /<testcase name="[^"]*"/) {
  cases = failures = 0
  split("", result)
  match($0, / status="[^"]*"/)
  status = substr($0, RSTART + 9, RLENGTH - 10)
}
/<skipped message="SKIP_RETURN_CODE/ { status = "disabled" }
match($0, /\[       OK \] [^ ,]+/) { note("passed") }
match($0, /\[  SKIPPED \] [^ ,]+\.[^ ,]+/) { note("skipped") }
match($0, /\[  FAILED  \] [^ ,]+\.[^ ,]+/) { note("failed") }
/<\/testcase>/ {
  if (status == "disabled") count["skipped"] += cases == 0
  else if (status != "run") count["failed"] += failures == 0
  else count["passed"] += cases == 0
}
END { print count["passed"] + 0, count["failed"] + 0, count["skipped"] + 0 }
