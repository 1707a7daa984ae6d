/* Secure aggregation against a server that lies.

   N members on the full graph, numbered from 0; the last C of them are corrupt: they sign anything
   and hand every share they hold to the server. The server is whoever asks: it may ask any honest
   client for any stage at any time, or never again (the client is lost), show different clients
   different members, turns or contexts (a view), payloads, sets of clients present and sets of
   survivors, and repeat a letter, which gets the same answer and changes nothing.

   Signatures, hashes and boxes are taken to be perfect: a view, a set or a payload that differs has
   another transcript, a box of another view does not open, nobody signs for an honest client.

   Checked in every state that can be reached:
     1  the server never has t shares of both secrets of an honest client;
     2  in one view, no two honest clients give shares for different survivors or transcripts;
     3  whatever sum of uploads the server can unmask has t - C honest clients or more in it, all of
        one view and one payload. A sum can be unmasked if the own masks in it are open, and each
        mask of a pair cancels or follows from an opened mask key.

   Rules can be taken out, and then an attack must be found:
     NO_BOUND     the threshold does not count corrupt clients
     NO_PAYLOAD   the transcript does not cover the payload
     NO_SALT      masks do not depend on the transcript
     NO_CONSENTS  shares are given without others' signatures
     AGAIN        another letter of a stage is answered, too

   NO_PRESENT leaves out of the transcript who is present. No attack is found then with up to four
   clients: this part is there in case another rule fails.

   CLAIM checks one of the three only: what a rule is there for is seen best alone. */

#ifndef N
#define N 4
#endif
#ifndef C
#define C 1
#endif
#ifndef VIEWS
#define VIEWS 2
#endif
#ifdef CLAIM
#define CHECKED(k) (CLAIM == k)
#else
#define CHECKED(k) true
#endif
#define HONEST (N - C)
#define ALL ((1 << N) - 1)
#define CORRUPT (ALL ^ ((1 << HONEST) - 1))

#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(s) (HAS(s, 0) + HAS(s, 1) + HAS(s, 2) + HAS(s, 3) + HAS(s, 4))

/* Views 0 and 1 have all members and differ in anything else; view 2 has one member less. */
#define MEMBERS(view) ((view) == 2 -> (ALL >> 1) : ALL)
#define TWO_THIRDS(m) ((2 * (m) + 2) / 3)
#define HALF(m) (((m) + C) / 2 + 1)
#ifdef NO_BOUND
#define T(m) TWO_THIRDS(m)
#else
#define T(m) (TWO_THIRDS(m) > HALF(m) -> TWO_THIRDS(m) : HALF(m))
#endif
#define NEEDED(i) T(COUNT(MEMBERS(view[i])))

#ifdef AGAIN
#define ANOTHER true
#else
#define ANOTHER false
#endif

#define NOTHING 0
#define KEYS 1
#define SHARES 2
#define BOXES 3
#define UPDATE 4
#define CONSISTENCY 5
#define UNMASK 6

/* What each honest client has answered, and to which letters. */
byte stage[HONEST];
byte view[HONEST];
byte payload[HONEST];
byte present[HONEST];
byte survivors[HONEST];
/* Which honest clients gave a share of a client's own mask, and of its mask key. */
byte own[HONEST];
byte key[HONEST];

#ifdef NO_PAYLOAD
#define SAME_PAYLOAD(a, b) true
#else
#define SAME_PAYLOAD(a, b) (payload[a] == payload[b])
#endif
#ifdef NO_PRESENT
#define SAME_PRESENT(a, b) true
#else
#define SAME_PRESENT(a, b) (present[a] == present[b])
#endif
#define SAME_TRANSCRIPT(a, b) \
    (view[a] == view[b] && SAME_PRESENT(a, b) && SAME_PAYLOAD(a, b))
#ifdef NO_SALT
#define CANCELS(a, b) (view[a] == view[b] && HAS(present[b], a))
#else
#define CANCELS(a, b) (SAME_TRANSCRIPT(a, b) && HAS(present[b], a))
#endif

#define COLLUDING(i) COUNT(CORRUPT & MEMBERS(view[i]))
#define OPEN(shares, i) (COUNT(shares[i]) + COLLUDING(i) >= NEEDED(i))

byte a, b, sum, before, count;
bool readable;

inline check() {
    d_step {
        for (a : 0 .. HONEST - 1) {
            assert(!CHECKED(1) || stage[a] < SHARES || !(OPEN(own, a) && OPEN(key, a)));
            for (b : 0 .. HONEST - 1) {
                assert(!CHECKED(2) || stage[a] < UNMASK || stage[b] < UNMASK ||
                       view[a] != view[b] || (SAME_TRANSCRIPT(a, b) && survivors[a] == survivors[b]));
            }
        }
        for (count : 0 .. HONEST - 1) {
            sum = 1 << count;
            before = 0;
            readable = (stage[count] >= UPDATE && OPEN(own, count));
            do
            :: readable && sum != before ->
                before = sum;
                for (a : 0 .. HONEST - 1) {
                    for (b : 0 .. HONEST - 1) {
                        if
                        :: a != b && HAS(sum, a) && HAS(present[a], b) && !OPEN(key, a) &&
                           !(stage[b] >= SHARES && OPEN(key, b)) ->
                            if
                            :: stage[b] >= UPDATE && OPEN(own, b) && CANCELS(a, b) ->
                                sum = sum | (1 << b)
                            :: else -> readable = false
                            fi
                        :: else
                        fi
                    }
                }
            :: else -> break
            od;
            if
            :: CHECKED(3) && readable ->
                assert(COUNT(sum) + C >= NEEDED(count));
                for (b : 0 .. HONEST - 1) {
                    assert(!HAS(sum, b) || view[b] == view[count]);
                    assert(!HAS(sum, b) || payload[b] == payload[count]);
                }
            :: else
            fi
        }
        a = 0; b = 0; sum = 0; before = 0; count = 0; readable = false
    }
}

/* Everybody in the set has dealt shares that this client could open. */
#define DEALT(i, v) (stage[v] >= SHARES && view[v] == view[i])
inline only_dealers(i, set) {
    d_step {
        readable = true;
        for (a : 0 .. HONEST - 1) {
            readable = readable && (!HAS(set, a) || a == i || DEALT(i, a))
        }
        a = 0
    }
}

/* How many signed what this client signed, itself and all corrupt members included. */
inline count_consents(i) {
    d_step {
        count = COLLUDING(i);
        for (a : 0 .. HONEST - 1) {
            count = count + (stage[a] >= CONSISTENCY && survivors[a] == survivors[i] &&
                             SAME_TRANSCRIPT(a, i))
        }
        a = 0
    }
}

inline give_shares(i) {
    d_step {
        for (a : 0 .. HONEST - 1) {
            if
            :: HAS(present[i], a) && HAS(survivors[i], a) -> own[a] = own[a] | (1 << i)
            :: HAS(present[i], a) && !HAS(survivors[i], a) -> key[a] = key[a] | (1 << i)
            :: else
            fi
        }
        a = 0
    }
}

/* One letter to client i, with whatever the server likes in it. */
inline ask(i) {
    if
    :: stage[i] == NOTHING -> stage[i] = KEYS
    :: stage[i] == KEYS ->
        /* Adverts of all members are signed: they must have made theirs. The names of views and
           payloads mean nothing: client 0 sees view 0 or 2, and payload 0. */
        select(set : 0 .. VIEWS - 1);
        if
        :: (i > 0 || set != 1) && HAS(MEMBERS(set), i) ->
            d_step {
                readable = true;
                for (a : 0 .. HONEST - 1) {
                    readable = readable && (!HAS(MEMBERS(set), a) || stage[a] >= KEYS)
                }
                a = 0
            }
            if
            :: readable && T(COUNT(MEMBERS(set))) <= COUNT(MEMBERS(set)) ->
                view[i] = set; stage[i] = SHARES
            :: else
            fi
        :: else
        fi
    :: stage[i] == SHARES -> stage[i] = BOXES
    :: stage[i] == BOXES ->
        /* The server says whose boxes fail, so this is any set of those that would open. */
        select(set : 0 .. ALL);
        only_dealers(i, set);
        if
        :: readable && HAS(set, i) && (set & MEMBERS(view[i])) == set &&
           COUNT(set) >= NEEDED(i) ->
            present[i] = set;
            if
            :: payload[i] = 0
            :: i > 0 -> payload[i] = 1
            fi
            stage[i] = UPDATE;
            check()
        :: else
        fi
    :: stage[i] == UPDATE || (ANOTHER && stage[i] > UPDATE) ->
        select(set : 0 .. ALL);
        if
        :: HAS(set, i) && (set & present[i]) == set && COUNT(set) >= NEEDED(i) ->
            survivors[i] = set; stage[i] = CONSISTENCY
        :: else
        fi
    :: stage[i] == CONSISTENCY ->
#ifndef NO_CONSENTS
        count_consents(i);
#else
        count = N;
#endif
        if
        :: count >= NEEDED(i) -> give_shares(i); stage[i] = UNMASK; count = 0; check()
        :: else
        fi
    fi;
    readable = false; count = 0; set = 0
}

active proctype server() {
    byte i, set;
    do
    :: atomic {
        select(i : 0 .. HONEST - 1);
        if
        :: stage[i] < UNMASK || ANOTHER -> ask(i)
        :: else
        fi;
        i = 0
    }
    :: break
    od
}
