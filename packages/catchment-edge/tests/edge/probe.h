void probe_serve(void);
