/* Secure aggregation with a server that is honest, and clients that are lost or lie.

   M of N clients answered `keys`; the last C of the N may lie. From then on at most M - t members
   are lost, at any stage: they never answer, their answer comes too late, or, lying, they complain of
   a box that was right (the server believes a single complaint and leaves the sender out) or give a
   wrong share (thrown away, because its hash is known). The server may crash before any letter, as
   often as CRASHES, and asks all of the stage again.

   EXTRA lets that many more be lost, and then the sum need not come out.

   Checked: no client that is asked has a reason to refuse, and the sum always comes out. */

#ifndef N
#define N 4
#endif
#ifndef C
#define C 1
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef EXTRA
#define EXTRA 0
#endif
#define ALL ((1 << N) - 1)
#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(s) (HAS(s, 0) + HAS(s, 1) + HAS(s, 2) + HAS(s, 3) + HAS(s, 4))
#define TWO_THIRDS(m) ((2 * (m) + 2) / 3)
#define HALF(m) (((m) + C) / 2 + 1)
#define T(m) (TWO_THIRDS(m) > HALF(m) -> TWO_THIRDS(m) : HALF(m))
#define LIES(i) ((i) >= N - C)

byte members, sharing, opened, uploaded, agreed, gave;
byte left, needed, crashes;
bool summed = false;

ltl comes_out { <> summed }

/* Ask everybody of a set; those who answer are in another. */
inline stage(asked, answered) {
    i = 0;
    do
    :: i < N && HAS(asked, i) ->
        if
        :: answered = answered | (1 << i); i = i + 1
        :: left > 0 -> left = left - 1; answered = answered & (ALL ^ (1 << i)); i = i + 1
        :: crashes > 0 -> crashes = crashes - 1; i = 0
        fi
    :: i < N && !HAS(asked, i) -> i = i + 1
    :: else -> break
    od;
    i = 0
}

active proctype server() {
    byte i;
    crashes = CRASHES;
    select(members : 0 .. ALL);
    if
    :: T(COUNT(members)) <= COUNT(members) && COUNT(members) >= 3
    :: else -> summed = true; goto over  /* no round of these: clients refuse its threshold */
    fi;
    needed = T(COUNT(members));
    left = COUNT(members) - needed + EXTRA;

    stage(members, sharing);
    assert(COUNT(sharing) >= needed);
    stage(sharing, opened);
    i = 0;
    do
    :: i < N ->
        if
        :: left > 0 && HAS(opened, i) && (opened >> (N - C)) != 0 ->
            left = left - 1; opened = opened & (ALL ^ (1 << i)); i = i + 1
        :: i = i + 1
        fi
    :: else -> break
    od;
    i = 0;
    assert(COUNT(opened) >= needed);
    stage(opened, uploaded);
    assert(COUNT(uploaded) >= needed);
    stage(uploaded, agreed);
    assert(COUNT(agreed) >= needed);
    stage(agreed, gave);
    /* Everybody present holds a share of everybody present: of each secret there are this many. */
    assert(COUNT(gave) >= needed);
    summed = true;
over:
    skip
}
