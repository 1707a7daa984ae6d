/* @TITLE@ */
#include "@NAME@.h"

%# A form of numbers is as the hello counts them: whole ones are 1.
#define DEVICE_NUMBER 1
#define DEVICE_CHANNELS 1
#define DEVICE_OUTPUTS 1
#define DEVICE_FEATURES 0
#define DEVICE_CLASSES 0
#define DEVICE_PER_STEP 1
#define DEVICE_HORIZON @D.learn.horizon@
#define DEVICE_GAPS @GAPS.index(D.learn.preprocessing.gaps) if D.learn.preprocessing.gaps in GAPS else 0@
#define DEVICE_SCALE @D.scale@
#define DEVICE_PIECE @PIECE@
#define DEVICE_MASKS 0

#define LAGS @D.learn.n_lags@
