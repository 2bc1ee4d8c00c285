# cmake -DOUT=file.cc -DCONSTANTS=constants.lua -DFILES=a.lua,b.lua -DRARE=c.lua -DMAIN=main.lua
#   -P embed.cmake
#
# The files, joined, as a string of C++: without comments, and with the values of CONSTANTS (lines
# "local NAME = VALUE") in the places of their names. The functions of RARE are made by the first
# call that uses one of them, as making a function is a good part of what a short call costs.
file(STRINGS "${CONSTANTS}" lines REGEX "^local [A-Z_]+ = ")
function(join out files)
  string(REPLACE "," ";" files "${files}")
  set(text "")
  foreach(file ${files})
    file(READ "${file}" part)
    string(APPEND text "\n${part}\n")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
join(common "${FILES}")
join(rare "${RARE}")
join(main "${MAIN}")
# The table of functions is made in its size at once. And a function whose outer variables are those of
# the function around it is made faster than one that takes them from the script itself.
string(REGEX MATCHALL "function F\\.[a-z_]+" functions "${common}")
list(TRANSFORM functions REPLACE "function F\\." "")
list(TRANSFORM functions APPEND "=0")
list(JOIN functions "," functions)
string(REPLACE "local F = {}" "local F = {${functions}}" common "${common}")
string(FIND "${common}" "function F." first)
string(SUBSTRING "${common}" 0 ${first} variables)
string(SUBSTRING "${common}" ${first} -1 common)
set(code "${variables}
local function make_common()
${common}
end
make_common()
local function make_rare()
${rare}
end
setmetatable(F, {__index = function(_, name)
  if C.rare then return nil end
  C.rare = true
  make_rare()
  return rawget(F, name)
end})
${main}")
string(REGEX REPLACE "(^|\n)[ ]*--[^\n]*" "" code "${code}")
string(REGEX REPLACE "[ ]+--[^\n]*" "" code "${code}")
string(REGEX REPLACE "\n[ \n]+" "\n" code "${code}")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^local ([A-Z_]+) = (-?[0-9]+)" _ "${line}")
  set(name "${CMAKE_MATCH_1}")
  set(value "${CMAKE_MATCH_2}")
  # Twice, as neighbours share the character between them.
  foreach(pass 1 2)
    string(REGEX REPLACE "([^A-Za-z0-9_'.])${name}([^A-Za-z0-9_'])" "\\1${value}\\2" code "${code}")
  endforeach()
endforeach()
file(WRITE "${OUT}" "namespace headrace::quota {\nextern const char* const kPoolScriptText;\nconst char* const kPoolScriptText = R\"lua(${code})lua\";\n}  // namespace headrace::quota\n")
