/* A leader that lies, and a helper that answers batches, in secure aggregation with two servers.

   N clients have sent one upload each to each of two plans that read the same data; the last C of
   them are corrupt and tell the leader all they hold. The leader names batches of either plan as it
   likes, in any order and as often as it likes, up to BATCHES that are answered. The helper may be stopped at any moment and begins anew with what it noted. It
   answers the sum of a batch's masks, with which the leader opens the sum of the batch.

   Claim: of the sums that were opened no combination is of 1 to FLOOR - C - 1 honest clients.

   Rules can be taken out, and then an attack must be found:
     NO_FLOOR     the leader says how many clients make a batch, not what the clients signed
     OVERLAP      a client may be in two batches
     BY_PLAN      batches of one plan are compared, and not those of plans over the same data
     NOTE_LATER   the helper notes a batch after its answer has left */

#ifndef N
#define N 5
#endif
#ifndef C
#define C 0
#endif
#ifndef FLOOR
#define FLOOR 3
#endif
#define BATCHES 3
#define ALL ((1 << N) - 1)
#define HONEST ((1 << (N - C)) - 1)
#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(s) (HAS(s, 0) + HAS(s, 1) + HAS(s, 2) + HAS(s, 3) + HAS(s, 4))

byte opened[BATCHES];
byte n_opened;
byte noted[BATCHES]; /* what the helper knows of itself */
byte of_plan[BATCHES];
byte n_noted;

#ifdef BY_PLAN
#define COMPARED(k, plan) (of_plan[k] == plan)
#else
#define COMPARED(k, plan) 1 /* clients sign which sums their data went into before */
#endif

inline allowed(batch, plan, yes) {
  yes = 1;
#ifndef NO_FLOOR
  if :: COUNT(batch) < FLOOR -> yes = 0 :: else fi;
#endif
#ifndef OVERLAP
  k = 0;
  do
  :: k < n_noted ->
     if
     :: COMPARED(k, plan) && (noted[k] & batch) && noted[k] != batch -> yes = 0
     :: else
     fi;
     k++
  :: else -> break
  od;
#endif
  k = 0
}

/* The honest clients whose data are left in a combination of the sums with these coefficients. */
inline left_in(a, b, c, set) {
  set = 0;
  k = 0;
  do
  :: k < N ->
     if
     :: a * HAS(opened[0], k) + b * HAS(opened[1], k) + c * HAS(opened[2], k) != 0 ->
        set = set | (1 << k)
     :: else
     fi;
     k++
  :: else -> break
  od;
  set = set & HONEST;
  k = 0
}

active proctype leader() {
  byte batch, plan, yes, k, left;
  int a, b, c;
  do
  :: n_opened < BATCHES ->
     select(batch : 1 .. ALL);
     select(plan : 0 .. 1);
     atomic {
       allowed(batch, plan, yes);
       if
       :: yes ->
#ifdef NOTE_LATER
          opened[n_opened] = batch; n_opened++;
          if :: noted[n_noted] = batch; of_plan[n_noted] = plan; n_noted++ :: skip /* stopped before it was noted */ fi
#else
          noted[n_noted] = batch; of_plan[n_noted] = plan; n_noted++;
          if :: opened[n_opened] = batch; n_opened++ :: n_noted < BATCHES fi /* or stopped */
#endif
       :: else
       fi
     }
     if :: n_noted == BATCHES -> break :: else fi
  :: break
  od;
  select(a : 0 .. 2); select(b : 0 .. 2); select(c : 0 .. 2);
  atomic {
    left_in((a - 1), (b - 1), (c - 1), left);
    assert(COUNT(left) == 0 || COUNT(left) >= FLOOR - C)
  }
}
