int main(void)
{
    console_getline_init();
    lags_start(&sums);
    for (;;)
        take(console_getline());
}
