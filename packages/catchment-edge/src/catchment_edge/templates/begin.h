
/* A recording of this many steps begins: its parts depend on its length. @NAME@_predict
 * does it by itself; after @NAME@_reset alone a recording has no scores. */
void @NAME@_begin(struct @NAME@_state *s, uint32_t steps);
