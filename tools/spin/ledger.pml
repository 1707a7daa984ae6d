/* The clients' ledgers against a server that asks for sums as it likes.

   N clients, of whom the last C are corrupt: they have no ledger, sign anything and tell the server
   all they hold. Two plans, which run side by side in any order. In each the server names who is
   present, asks whom it likes for an upload, seals a set of those whose uploads it has, asks for
   consents and then for shares; whoever it does not ask any more is lost, at any stage, and the
   upload that left stays with the server; up to LOST are. One client's data change at any time. What the secure
   sum itself promises is in secure_aggregation.pml: one set is opened in a session, if T clients agree.

   A client's ledger has an entry for each session: possibly released when the upload leaves, with
   those present; settled with the sealed set when it gives its shares. An upload leaves, and a set
   is agreed to, only if it fits the entry of the other session.

   Claim: of the sums that were opened no linear combination is of 1 to FLOOR - C - 1 honest clients.
   Unknown are the data of each client before and after a change. Two sums in which a client has the
   same data are of the same unknown; only their difference cancels anything.

   Rules can be taken out, and then an attack must be found:
     AT_UNMASK   an upload is entered when shares are given, not when it leaves
     ANY_SET     sums may be over different sets
     ANY_DATA    data that were released may change
     BY_PLAN     data are known by what a plan reads of them: every plan has entries of its own */

#ifndef N
#define N 4
#endif
#ifndef C
#define C 0
#endif
#ifndef FLOOR
#define FLOOR 3
#endif
#ifndef LOST
#define LOST 1
#endif
#define HONEST (N - C)
#define ALL ((1 << N) - 1)
#define CORRUPT (ALL ^ ((1 << HONEST) - 1))
#define PLANS 2

#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(s) (HAS(s, 0) + HAS(s, 1) + HAS(s, 2) + HAS(s, 3) + HAS(s, 4))
#define TWO_THIRDS ((2 * N + 2) / 3)
#define HALF ((N + C) / 2 + 1)
#define T (TWO_THIRDS > HALF -> TWO_THIRDS : HALF)

#define BEGIN 0
#define UPLOAD 1
#define AGREE 2
#define GIVE 3
#define DONE 4

#define NOTHING 0
#define UPLOADED 1
#define AGREED 2
#define GAVE 3
#define AT(p, i) ((p) * HONEST + (i))

byte phase[PLANS];
byte turn[PLANS];
byte lost[PLANS];              /* who is never asked again in the plan */
byte present[PLANS];           /* who the server says is there; none before the plan begins */
byte sealed[PLANS];            /* of whom the sum is; none before it is sealed */
byte stage[PLANS * HONEST];    /* what each client has done in each plan */
byte entry[PLANS * HONEST];    /* the set that its ledger has for the plan; none if there is none */
bool settled[PLANS * HONEST];  /* whether it knows that this is the one */
bool sent[PLANS * HONEST];     /* which of its data it sent: before or after a change */
bool now[HONEST];              /* which data it has */
bool changed;                  /* of one of them, at any time */

byte a, count, apart;
bool fits;

#ifdef BY_PLAN
#define KNOWN(p, i) false
#else
#define KNOWN(p, i) (entry[AT(1 - p, i)] != 0)
#endif
#define OTHER(p, i) entry[AT(1 - p, i)]
#ifdef ANY_DATA
#define SAME_DATA(p, i, which) true
#else
#define SAME_DATA(p, i, which) (sent[AT(1 - p, i)] == which)
#endif
#ifdef ANY_SET
#define SAME_SET(p, i, set) true
#else
#define SAME_SET(p, i, set) (OTHER(p, i) == set)
#endif
/* A settled set may still come out of a larger one, if the others are too few to open anything. */
#define COMES_OUT(p, i, set) \
    (settled[AT(1 - p, i)] && (OTHER(p, i) & set) == OTHER(p, i) && \
     COUNT(set) - COUNT(OTHER(p, i)) <= T - 1 - C)

inline count_from(p, least) {
    d_step {
        count = COUNT(CORRUPT & sealed[p]);
        for (a : 0 .. HONEST - 1) {
            count = count + (stage[AT(p, a)] >= least)
        }
        a = 0
    }
}

/* Sums that are open: T shares of everybody in them. */
inline check() {
    d_step {
        apart = 0;
        count_from(0, GAVE);
        fits = (count >= T);
        count_from(1, GAVE);
        if
        :: fits && count >= T ->
            for (a : 0 .. HONEST - 1) {
                apart = apart + (HAS(sealed[0], a) != HAS(sealed[1], a) ||
                                 (HAS(sealed[0], a) && sent[AT(0, a)] != sent[AT(1, a)]))
            }
            assert(apart == 0 || apart >= FLOOR - C)
        :: else
        fi;
        a = 0; count = 0; apart = 0; fits = false
    }
}

/* One step of a plan: the next client in its turn is asked, or lost for good. Which of two clients
   is asked first in a stage makes no difference, because each looks at its own ledger only; all
   orders of the two plans, for each client, are tried. */
inline step(p) {
    if
    :: phase[p] == BEGIN ->
        if
        :: present[p] = ALL
        :: true -> select(i : 0 .. N - 1); present[p] = ALL ^ (1 << i)
        fi;
        phase[p] = UPLOAD
    :: phase[p] > BEGIN && phase[p] < DONE && turn[p] < HONEST ->
        i = turn[p];
        if
        :: HAS(present[p], i) && !HAS(lost[p], i) && COUNT(lost[0]) + COUNT(lost[1]) < LOST ->
            lost[p] = lost[p] | (1 << i);
            if
            :: true
            :: phase[p] == UPLOAD -> upload(p, i) /* its answer is lost, or comes: see seal */
            fi
        :: true -> ask(p, i)
        fi;
        turn[p] = turn[p] + 1
    :: phase[p] > BEGIN && phase[p] < DONE && turn[p] == HONEST ->
        if
        :: phase[p] == UPLOAD -> seal(p)
        :: else -> phase[p] = phase[p] + 1
        fi;
        turn[p] = 0
    fi
}

inline ask(p, i) {
    if
    :: HAS(lost[p], i) || !HAS(present[p], i) -> skip
    :: else ->
        if
        :: phase[p] == UPLOAD -> upload(p, i)
        :: phase[p] == AGREE -> agree(p, i)
        :: phase[p] == GIVE -> give(p, i)
        fi
    fi
}

inline upload(p, i) {
    if
    :: HAS(present[p], i) && stage[AT(p, i)] == NOTHING &&
       (!KNOWN(p, i) || (SAME_DATA(p, i, now[i]) &&
                         (SAME_SET(p, i, present[p]) || COMES_OUT(p, i, present[p])))) ->
        d_step {
            stage[AT(p, i)] = UPLOADED;
            sent[AT(p, i)] = now[i];
#ifndef AT_UNMASK
            entry[AT(p, i)] = (KNOWN(p, i) && COMES_OUT(p, i, present[p])
                               -> OTHER(p, i) : present[p]);
#endif
        }
    :: else
    fi
}

/* The sum is of those whose uploads came: all that left, or all but one that was lost on the way,
   which its client does not know. */
inline seal(p) {
    d_step {
        set = present[p] & CORRUPT;
        for (a : 0 .. HONEST - 1) {
            set = set | ((stage[AT(p, a)] == UPLOADED) << a)
        }
        a = 0
    }
    if
    :: true
    :: COUNT(lost[p]) > 0 -> set = set & ~lost[p]
    fi;
    if
    :: COUNT(set) >= FLOOR && COUNT(set) >= T -> sealed[p] = set; phase[p] = AGREE
    :: else -> phase[p] = DONE
    fi;
    set = 0
}

inline agree(p, i) {
    if
    :: HAS(sealed[p], i) && stage[AT(p, i)] == UPLOADED &&
       (!KNOWN(p, i) || (SAME_DATA(p, i, sent[AT(p, i)]) && SAME_SET(p, i, sealed[p]))) ->
        stage[AT(p, i)] = AGREED
    :: else
    fi
}

inline give(p, i) {
    count_from(p, AGREED);
    if
    :: stage[AT(p, i)] == AGREED && count >= T &&
       (!KNOWN(p, i) || (SAME_DATA(p, i, sent[AT(p, i)]) && SAME_SET(p, i, sealed[p]))) ->
        d_step {
            stage[AT(p, i)] = GAVE;
            entry[AT(p, i)] = sealed[p];
            settled[AT(p, i)] = true
        }
        check()
    :: else
    fi
}

active proctype server() {
    byte p, i, set;
    do
    :: atomic { phase[0] < DONE -> p = 0; step(p); i = 0; count = 0; fits = false }
    :: atomic { phase[1] < DONE -> p = 1; step(p); p = 0; i = 0; count = 0; fits = false }
    :: atomic { !changed -> select(i : 0 .. HONEST - 1); changed = true; now[i] = true; i = 0 }
    :: break
    od
}
