/* @TITLE@ */
#include "@NAME@.h"@'\n#include "monocypher.h"\n#include "%s_secret.h"' % NAME if L.neighbors@

typedef struct {
%% for one in L.state
    @one.type@ @one.name@[@one.length@];
%% endfor
} state;
typedef double value;
typedef int32_t word;
typedef @L.feature@ feature;
typedef int32_t grid_word;
typedef uint16_t grid_index;

%% set task = L.task
%% set code = L.map
%% set bits = code.bits or 0
%# A form of numbers is as the hello counts them: whole ones are 1.
#define DEVICE_NUMBER 1
#define DEVICE_CHANNELS @task.channels@
#define DEVICE_WORDS @code.n_words@
#define DEVICE_OUTPUTS @task.outputs@
#define DEVICE_FEATURES @code.n_features@
#define DEVICE_FEATURE_BITS @bits@
#define DEVICE_WEIGHT_BITS @[30, 62 - bits - code.n_features.bit_length()]|min@
#define DEVICE_CLASSES @(task.classes is not none)|int@
#define DEVICE_PER_STEP @code.per_step|int@
#define DEVICE_STREAMS @code.streams|int@
#define DEVICE_WASHOUT @code.washout@
#define DEVICE_LEAST @code.least_steps@
#define DEVICE_EVERY @task.row_stride@
#define DEVICE_HORIZON @([0] + task.preprocessing.horizons|list)|max@
#define DEVICE_WINDOW @task.window@
#define DEVICE_STEP @task.step@
#define DEVICE_KEPT @L.kept@
#define DEVICE_MAJORITY @L.majority|int@
#define DEVICE_GAPS @GAPS.index(task.preprocessing.gaps)@
#define DEVICE_SCALE @L.scale@
#define DEVICE_PIECE @PIECE@
#define DEVICE_MASKS @(L.neighbors > 0)|int@
#define DEVICE_PAIRS @L.neighbors@
#define DEVICE_SERVERS @2 if task.helper else 1@
#define DEVICE_FLOOR @task.floor@
#define DEVICE_LEAST_ROWS @task.least@u
#define DEVICE_MOST_ROWS @L.sums.most_rows@u
#define DEVICE_GRAM @L.sums.gram@
#define DEVICE_SUM @L.sums.sum@
