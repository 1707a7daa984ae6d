void app_main(void)
{
    static char line[64];
    lags_start(&sums);
    for (;;) {
        if (fgets(line, sizeof line, stdin) != NULL)
            take(line);
        else
            clearerr(stdin);
    }
}
